"""Models: one architecture, one file, its configuration beside it."""

from crosshead.extensions import imported_at_use
from crosshead.models.attention_kinds import (
    AttentionParts,
    PositionKind,
    register_positions,
    register_score,
)
from crosshead.models.base import Model, ModelConfig, SequenceModel, TokenModel, TokenModelConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.ensemble import Ensemble
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.registry import (
    build_model,
)
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig

_HOMES = {
    "Captioner": "crosshead.addons.vision.models.captioner",
    "CaptionerConfig": "crosshead.addons.vision.models.captioner",
    "Classifier": "crosshead.addons.vision.models.classifier",
    "ClassifierConfig": "crosshead.addons.vision.models.classifier",
    "ConvNet": "crosshead.addons.vision.models.classifier",
    "ConvNetConfig": "crosshead.addons.vision.models.classifier",
    "Forecaster": "crosshead.addons.series.models.forecaster",
    "ForecasterConfig": "crosshead.addons.series.models.forecaster",
    "ForecasterShape": "crosshead.addons.series.models.forecaster",
    "ImageShape": "crosshead.addons.vision.models.image_encoder",
    "LinearForecaster": "crosshead.addons.series.models.column_forecasters",
    "LinearForecasterConfig": "crosshead.addons.series.models.column_forecasters",
    "MultimodalConfig": "crosshead.addons.vision.models.multimodal",
    "MultimodalTransformer": "crosshead.addons.vision.models.multimodal",
    "PatchForecaster": "crosshead.addons.series.models.column_forecasters",
    "PatchForecasterConfig": "crosshead.addons.series.models.column_forecasters",
    "SeriesRecurrent": "crosshead.addons.series.models.series_decoders",
    "SeriesRecurrentConfig": "crosshead.addons.series.models.series_decoders",
    "SeriesTransformer": "crosshead.addons.series.models.series_decoders",
    "SeriesTransformerConfig": "crosshead.addons.series.models.series_decoders",
    "VisionTransformer": "crosshead.addons.vision.models.vision_transformer",
    "VisionTransformerConfig": "crosshead.addons.vision.models.vision_transformer",
    "build_classifier": "crosshead.addons.vision.models.classifier",
    "build_forecaster": "crosshead.addons.series.models.forecaster",
    "build_image_text_model": "crosshead.addons.vision.bundles",
}
"""The modules of names that add-ons define."""

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

__getattr__ = imported_at_use(__name__, _HOMES)
