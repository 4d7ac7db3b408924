"""Models: one architecture, one file, its configuration beside it."""

from crosshead.models.attention_kinds import (
    AttentionParts,
    PositionKind,
    register_positions,
    register_score,
)
from crosshead.models.base import Model, ModelConfig, SequenceModel, TokenModel, TokenModelConfig
from crosshead.models.captioner import Captioner, CaptionerConfig
from crosshead.models.classifier import Classifier, ClassifierConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.ensemble import Ensemble
from crosshead.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.models.image_convnet import ConvNet, ConvNetConfig
from crosshead.models.image_encoder import ImageShape
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.linear_forecaster import LinearForecaster, LinearForecasterConfig
from crosshead.models.multimodal import MultimodalConfig, MultimodalTransformer
from crosshead.models.patch_forecaster import PatchForecaster, PatchForecasterConfig
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.registry import (
    build_classifier,
    build_forecaster,
    build_image_text_model,
    build_model,
)
from crosshead.models.series_decoders import (
    SeriesRecurrent,
    SeriesRecurrentConfig,
    SeriesTransformer,
    SeriesTransformerConfig,
)
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.models.vision_transformer import VisionTransformer, VisionTransformerConfig

__all__ = [
    "AttentionParts",
    "Captioner",
    "CaptionerConfig",
    "Classifier",
    "ClassifierConfig",
    "ConvNet",
    "ConvNetConfig",
    "Convolutional",
    "ConvolutionalConfig",
    "EncoderConfig",
    "Ensemble",
    "Forecaster",
    "ForecasterConfig",
    "ForecasterShape",
    "ImageShape",
    "LanguageConfig",
    "LinearForecaster",
    "LinearForecasterConfig",
    "Model",
    "ModelConfig",
    "MultimodalConfig",
    "MultimodalTransformer",
    "PatchForecaster",
    "PatchForecasterConfig",
    "PositionKind",
    "Recurrent",
    "RecurrentConfig",
    "SequenceModel",
    "SeriesRecurrent",
    "SeriesRecurrentConfig",
    "SeriesTransformer",
    "SeriesTransformerConfig",
    "TokenModel",
    "TokenModelConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerEncoder",
    "TransformerLanguageModel",
    "TransformerXL",
    "TransformerXLConfig",
    "VisionTransformer",
    "VisionTransformerConfig",
    "build_classifier",
    "build_forecaster",
    "build_image_text_model",
    "build_model",
    "register_positions",
    "register_score",
]
