"""Pipelines: a bundle as a callable on raw input."""

from crosshead.extensions import imported_at_use
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.masked.mask_filler import MaskFiller
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.translation.ensemble import EnsembleTranslator
from crosshead.tasks.translation.line_translator import TranslatedText
from crosshead.tasks.translation.translator import Translator

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
