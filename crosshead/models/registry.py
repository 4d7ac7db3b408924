"""All architectures by name: their configurations and their models."""

from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, ValidationInfo

from crosshead.extensions import Table
from crosshead.models.base import Model, ModelConfig, TokenModel, TokenModelConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

CONFIGS: Table[type[ModelConfig]] = Table(
    {
        "transformer": TransformerConfig,
        "convolutional": ConvolutionalConfig,
        "encoder": EncoderConfig,
        "language": LanguageConfig,
        "recurrent": RecurrentConfig,
        "transformer-xl": TransformerXLConfig,
    }
)
"""The configuration class of each `architecture`."""

MODELS: Table[type[Model]] = Table(
    {
        "transformer": Transformer,
        "convolutional": Convolutional,
        "encoder": TransformerEncoder,
        "language": TransformerLanguageModel,
        "recurrent": Recurrent,
        "transformer-xl": TransformerXL,
    }
)
"""The model class of each `architecture`."""


def build_model(
    config: TokenModelConfig, source_vocabulary: int, target_vocabulary: int
) -> TokenModel:
    """Build a freshly initialised model of tokens, in training mode.

    Args:
        config: The configuration.
        source_vocabulary: The number of source tokens, unused by a model of monolingual text.
        target_vocabulary: The number of target tokens, or of tokens of the text.

    Returns:
        The model of the configured architecture.
    """
    sizes = (source_vocabulary, target_vocabulary)[-config.vocabularies :]
    model = MODELS[config.architecture](config, *sizes)
    assert isinstance(model, TokenModel)
    return model


def _parsed(values: Any, info: ValidationInfo) -> ModelConfig:
    """Return the configuration of the architecture in `values`, by default a Transformer."""
    if isinstance(values, ModelConfig):
        return values
    if not isinstance(values, dict):
        return ModelConfig.model_validate(values, context=info.context)
    name = values.get("architecture", "transformer")
    if not isinstance(name, str) or name not in CONFIGS:
        known = ", ".join(map(repr, CONFIGS))
        raise ValueError(f"unknown architecture {name!r}; known: {known}")
    return CONFIGS[name].model_validate(values, context=info.context)


AnyConfig = Annotated[SerializeAsAny[ModelConfig], PlainValidator(_parsed)]
"""The configuration of any model. `architecture` selects its class, by default a Transformer."""

AnyTokenConfig = Annotated[SerializeAsAny[TokenModelConfig], PlainValidator(_parsed)]
"""The configuration of any model of a task whose models predict tokens."""
