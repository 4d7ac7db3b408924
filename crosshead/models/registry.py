"""All models by the name of their architecture."""

from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field

from crosshead.models.base import Model, ModelConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

_Configs = (
    TransformerConfig
    | ConvolutionalConfig
    | EncoderConfig
    | LanguageConfig
    | RecurrentConfig
    | TransformerXLConfig
)

CONFIGS: tuple[type[ModelConfig], ...] = get_args(_Configs)


def _transformer_by_default(values: Any) -> Any:
    if isinstance(values, dict) and "architecture" not in values:
        return {"architecture": "transformer", **values}
    return values


AnyConfig = Annotated[
    Annotated[_Configs, Field(discriminator="architecture")],
    BeforeValidator(_transformer_by_default),
]
"""The configuration of any model; `architecture` says of which, by default a Transformer."""

MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "convolutional": Convolutional,
    "encoder": TransformerEncoder,
    "language": TransformerLanguageModel,
    "recurrent": Recurrent,
    "transformer-xl": TransformerXL,
}
"""The model of each `architecture` that a configuration can name."""
