import pytest
from pydantic import TypeAdapter, ValidationError

from crosshead.models.registry import CONFIGS, MODELS, AnyConfig
from crosshead.models.transformer import TransformerConfig

ADAPTER: TypeAdapter[AnyConfig] = TypeAdapter(AnyConfig)
NAMES = {config.model_fields["architecture"].default: config for config in CONFIGS.values()}


def test_every_configuration_names_a_model_and_every_model_is_named() -> None:
    assert len(NAMES) == len(CONFIGS)
    assert MODELS.keys() == NAMES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_is_that_of_the_architecture_it_names(name: str) -> None:
    width = {} if name == "dlinear" else {"d_model": 32}
    found = ADAPTER.validate_python({"architecture": name, **width})
    assert type(found) is NAMES[name] and found.d_model == width.get("d_model", 512)
    assert ADAPTER.validate_json(found.model_dump_json()) == found


def test_it_is_a_transformer_by_default() -> None:
    assert ADAPTER.validate_python({"d_model": 64}) == TransformerConfig(d_model=64)


def test_what_no_model_has_is_refused() -> None:
    with pytest.raises(ValidationError, match="'transfomer'"):
        ADAPTER.validate_python({"architecture": "transfomer"})
    with pytest.raises(ValidationError, match="encoder_layers"):
        ADAPTER.validate_python({"architecture": "language", "encoder_layers": 2})
