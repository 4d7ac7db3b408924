"""Models: one architecture, one file, its configuration beside it."""

from crosshead.models.attention_kinds import (
    AttentionParts,
    PositionKind,
    register_positions,
    register_score,
)
from crosshead.models.base import Model, ModelConfig, SequenceModel, TokenModel, TokenModelConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

__all__ = [
    "AttentionParts",
    "Convolutional",
    "ConvolutionalConfig",
    "EncoderConfig",
    "LanguageConfig",
    "Model",
    "ModelConfig",
    "PositionKind",
    "Recurrent",
    "RecurrentConfig",
    "SequenceModel",
    "TokenModel",
    "TokenModelConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerEncoder",
    "TransformerLanguageModel",
    "TransformerXL",
    "TransformerXLConfig",
    "build_model",
    "register_positions",
    "register_score",
]
