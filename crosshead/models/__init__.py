"""Models: one architecture, one file, its configuration beside it."""

from crosshead.models.base import Model, ModelConfig, SequenceModel, TokenModel
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.registry import build_model, register_architecture
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

__all__ = [
    "Convolutional",
    "ConvolutionalConfig",
    "EncoderConfig",
    "LanguageConfig",
    "Model",
    "ModelConfig",
    "Recurrent",
    "RecurrentConfig",
    "SequenceModel",
    "TokenModel",
    "Transformer",
    "TransformerConfig",
    "TransformerEncoder",
    "TransformerLanguageModel",
    "TransformerXL",
    "TransformerXLConfig",
    "build_model",
    "register_architecture",
]
