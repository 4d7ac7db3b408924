import inspect

import pytest
import torch

from crosshead.addons.vision.models.image_encoder import ImageStackConfig
from crosshead.models.base import Model, ModelConfig, SequenceModel, decodable
from crosshead.models.registry import CONFIGS, MODELS, build_model

SMALL = {"d_model": 16}
STACKED = {"d_ff": 16, "heads": 2}
VOCABULARY = 12


def small(config: type[ModelConfig]) -> ModelConfig:
    """A configuration of a few numbers."""
    known = config.model_fields
    return config.model_validate(SMALL | {k: v for k, v in STACKED.items() if k in known})


OF_TOKENS = [
    config
    for config in CONFIGS.values()
    if config.vocabularies and not issubclass(config, ImageStackConfig)
]
"""The models of text; `test_captioner.py` tests those that read images."""


@pytest.mark.parametrize("config", OF_TOKENS, ids=lambda config: config.__name__)
class TestEveryModelOfTokens:
    def test_is_named_and_says_its_shape(self, config: type[ModelConfig]) -> None:
        shape = small(config)
        assert shape.architecture in MODELS
        assert "16" in shape.shape() and "\n" not in shape.shape()
        assert not inspect.isabstract(config)

    def test_logits_are_the_projection_of_its_features(self, config: type[ModelConfig]) -> None:
        torch.manual_seed(0)
        model = build_model(small(config), VOCABULARY, VOCABULARY).eval()
        sides = 2 if config.task == "translation" else 1
        inputs = [torch.randint(4, VOCABULARY, (3, 5 + side)) for side in range(sides)]
        features = model.features(*inputs)
        assert features.shape == (3, 5 + sides - 1, 16)
        assert torch.equal(model(*inputs), model.projection(features))

    def test_says_what_follows_unless_it_finds_what_is_hidden(
        self, config: type[ModelConfig]
    ) -> None:
        with torch.device("meta"):
            model: Model = build_model(small(config), VOCABULARY, VOCABULARY)
        assert isinstance(model, SequenceModel) == (config.task != "masked")
        if config.task != "masked":
            assert decodable(model) is model
            return
        with pytest.raises(TypeError, match="TransformerEncoder is not autoregressive"):
            decodable(model)


def test_a_configuration_without_a_shape_is_none() -> None:
    class Nameless(ModelConfig):
        architecture: str = "nameless"

    with pytest.raises(TypeError, match="abstract"):
        Nameless()  # type: ignore[abstract]
