"""All models by the name of their architecture."""

from crosshead.models.base import ModelConfig, SequenceModel
from crosshead.models.transformer import Transformer, TransformerConfig

AnyConfig = TransformerConfig
"""The configuration of any model; `architecture` says of which."""

CONFIGS: list[type[ModelConfig]] = [TransformerConfig]

MODELS: dict[str, type[SequenceModel]] = {"transformer": Transformer}
"""The model of each `architecture` that a configuration can name."""
