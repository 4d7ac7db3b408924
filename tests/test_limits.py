from typing import Any, get_args

import pytest

from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS


def numbers(config_class: Any) -> list[str]:
    return [
        name
        for name, field in config_class.model_fields.items()
        if {int, float} & {field.annotation, *get_args(field.annotation)}
    ]


@pytest.mark.parametrize("config_class", CONFIGS.values())
def test_every_number_of_a_model_has_bounds(config_class: Any) -> None:
    for name in numbers(config_class):
        for value in (10**9, 2**63, 10**400, -1, float("nan"), float("inf")):
            with pytest.raises(ConfigError, match=f"^{name}: ") as caught:
                validate(config_class, {name: value})
            assert "\n" not in str(caught.value)
    assert len(numbers(config_class)) >= (5 if config_class.vocabularies else 3)


def test_the_counts_of_a_bundle_have_bounds() -> None:
    sound = {"model": {}, "joint_tokenizer": True, "longest_source": 10}
    sound |= {"source_vocabulary": 10, "target_vocabulary": 10}
    validate(TextBundleConfig, sound)
    for name in ("source_vocabulary", "target_vocabulary", "longest_source", "format"):
        for value in (0, -1, 2**63):
            if (name, value) != ("format", 2**63):  # of a newer crosshead
                with pytest.raises(ConfigError, match=f"^{name}: "):
                    validate(TextBundleConfig, sound | {name: value})
