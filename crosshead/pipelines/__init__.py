"""Pipelines: a bundle as a callable on raw input."""

from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.captioner import ImageCaption, ImageCaptioner
from crosshead.pipelines.ensemble import EnsembleTranslator
from crosshead.pipelines.forecaster import Forecast, SeriesForecaster
from crosshead.pipelines.image_classifier import ImageClassifier
from crosshead.pipelines.mask_filler import MaskFiller
from crosshead.pipelines.multimodal_translator import MultimodalTranslator
from crosshead.pipelines.text_generator import TextGenerator
from crosshead.pipelines.translated_text import TranslatedText
from crosshead.pipelines.translator import Translator

__all__ = [
    "EnsembleTranslator",
    "Forecast",
    "ImageCaption",
    "ImageCaptioner",
    "ImageClassifier",
    "MaskFiller",
    "MultimodalTranslator",
    "Pipeline",
    "SeriesForecaster",
    "TextGenerator",
    "TranslatedText",
    "Translator",
]
