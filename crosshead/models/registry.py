"""All models by the name of their architecture."""

from typing import Annotated, get_args

from pydantic import Field

from crosshead.models.base import ModelConfig, SequenceModel
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

_Configs = (
    TransformerConfig | ConvolutionalConfig | LanguageConfig | RecurrentConfig | TransformerXLConfig
)

CONFIGS: tuple[type[ModelConfig], ...] = get_args(_Configs)

AnyConfig = Annotated[_Configs, Field(discriminator="architecture")]
"""The configuration of any model; `architecture` says of which."""

MODELS: dict[str, type[SequenceModel]] = {
    "transformer": Transformer,
    "convolutional": Convolutional,
    "language": TransformerLanguageModel,
    "recurrent": Recurrent,
    "transformer-xl": TransformerXL,
}
"""The model of each `architecture` that a configuration can name."""
