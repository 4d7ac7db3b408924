"""Pipelines: a bundle as a callable on raw input."""

from crosshead.extensions import imported_at_use
from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.ensemble import EnsembleTranslator
from crosshead.pipelines.mask_filler import MaskFiller
from crosshead.pipelines.text_generator import TextGenerator
from crosshead.pipelines.translated_text import TranslatedText
from crosshead.pipelines.translator import Translator

_HOMES = {
    "Forecast": "crosshead.addons.series.forecaster",
    "ImageCaption": "crosshead.addons.vision.caption_pipeline",
    "ImageCaptioner": "crosshead.addons.vision.caption_pipeline",
    "ImageClassifier": "crosshead.addons.vision.image_classifier",
    "MultimodalTranslator": "crosshead.addons.vision.multimodal_translator",
    "SeriesForecaster": "crosshead.addons.series.forecaster",
}
"""The modules of names that add-ons define."""

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

__getattr__ = imported_at_use(__name__, _HOMES)
