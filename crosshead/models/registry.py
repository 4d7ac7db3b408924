"""All models by the name of their architecture."""

from typing import Annotated

from pydantic import Field

from crosshead.models.base import SequenceModel
from crosshead.models.transformer import Transformer, TransformerConfig

AnyConfig = Annotated[TransformerConfig, Field(discriminator="architecture")]
"""The configuration of any model; `architecture` says of which."""

MODELS: dict[str, type[SequenceModel]] = {"transformer": Transformer}
"""The model of each `architecture` that a configuration can name."""
