"""All architectures by name: their configurations and their models."""

from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, ValidationInfo

from crosshead.models.base import Model, ModelConfig, TokenModel, TokenModelConfig
from crosshead.models.captioner import Captioner, CaptionerConfig
from crosshead.models.classifier import Classifier, ClassifierConfig
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.forecaster import Forecaster, ForecasterConfig, ForecasterShape
from crosshead.models.image_convnet import ConvNet, ConvNetConfig
from crosshead.models.image_encoder import ImageShape
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.linear_forecaster import LinearForecaster, LinearForecasterConfig
from crosshead.models.multimodal import MultimodalConfig, MultimodalTransformer
from crosshead.models.patch_forecaster import PatchForecaster, PatchForecasterConfig
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.series_decoders import (
    SeriesRecurrent,
    SeriesRecurrentConfig,
    SeriesTransformer,
    SeriesTransformerConfig,
)
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.models.vision_transformer import VisionTransformer, VisionTransformerConfig

CONFIGS: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "convolutional": ConvolutionalConfig,
    "encoder": EncoderConfig,
    "language": LanguageConfig,
    "recurrent": RecurrentConfig,
    "transformer-xl": TransformerXLConfig,
    "patchtst": PatchForecasterConfig,
    "dlinear": LinearForecasterConfig,
    "series-transformer": SeriesTransformerConfig,
    "series-recurrent": SeriesRecurrentConfig,
    "vit": VisionTransformerConfig,
    "convnet": ConvNetConfig,
    "captioner": CaptionerConfig,
    "multimodal": MultimodalConfig,
}
"""The configuration class of each `architecture`."""

MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "convolutional": Convolutional,
    "encoder": TransformerEncoder,
    "language": TransformerLanguageModel,
    "recurrent": Recurrent,
    "transformer-xl": TransformerXL,
    "patchtst": PatchForecaster,
    "dlinear": LinearForecaster,
    "series-transformer": SeriesTransformer,
    "series-recurrent": SeriesRecurrent,
    "vit": VisionTransformer,
    "convnet": ConvNet,
    "captioner": Captioner,
    "multimodal": MultimodalTransformer,
}
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


def build_image_text_model(
    config: TokenModelConfig, images: ImageShape, source_vocabulary: int, target_vocabulary: int
) -> TokenModel:
    """Build a freshly initialised model that reads images and predicts tokens, in training mode.

    Args:
        config: The configuration.
        images: The sizes of the images.
        source_vocabulary: The number of source tokens, unused by a captioner.
        target_vocabulary: The number of target tokens.

    Returns:
        The model of the configured architecture.

    Raises:
        ValueError: If the patches do not cover the images.
    """
    sizes = (source_vocabulary, target_vocabulary)[-config.vocabularies :]
    model = MODELS[config.architecture](config, images, *sizes)
    assert isinstance(model, TokenModel)
    return model


def build_forecaster(config: ModelConfig, shape: ForecasterShape) -> Forecaster:
    """Build a freshly initialised forecaster, in training mode.

    Args:
        config: The configuration.
        shape: The sizes of the data.

    Returns:
        The model.
    """
    assert isinstance(config, ForecasterConfig)
    model = MODELS[config.architecture](config, shape)
    assert isinstance(model, Forecaster)
    return model


def build_classifier(config: ModelConfig, shape: ImageShape, classes: int) -> Classifier:
    """Build a freshly initialised classifier of images, in training mode.

    Args:
        config: The configuration.
        shape: The sizes of the images.
        classes: The number of classes.

    Returns:
        The model.
    """
    assert isinstance(config, ClassifierConfig)
    model = MODELS[config.architecture](config, shape, classes)
    assert isinstance(model, Classifier)
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
