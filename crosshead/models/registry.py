"""All models by the name of their architecture."""

from typing import Annotated

from pydantic import Field

from crosshead.models.base import SequenceModel
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

AnyConfig = Annotated[
    TransformerConfig | LanguageConfig | TransformerXLConfig, Field(discriminator="architecture")
]
"""The configuration of any model; `architecture` says of which."""

MODELS: dict[str, type[SequenceModel]] = {
    "transformer": Transformer,
    "language": TransformerLanguageModel,
    "transformer-xl": TransformerXL,
}
"""The model of each `architecture` that a configuration can name."""
