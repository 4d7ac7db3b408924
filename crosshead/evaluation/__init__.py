"""Evaluation: scores of models on test sets, their intervals, and the comparison of systems."""

from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore
from crosshead.evaluation.comparison import ComparedScore, compare
from crosshead.tasks.likelihood import (
    bits_per_character,
    masked_scores,
    perplexity,
    text_scores,
)
from crosshead.evaluation.sacrebleu_metrics import METRICS, bleu
from crosshead.evaluation.translations import corpus_scores, evaluate, exact_match
from crosshead.extensions import imported_at_use

_HOMES = {
    "ClassScores": "crosshead.addons.vision.class_scores",
    "ForecastScore": "crosshead.addons.series.forecasts",
    "caption_scores": "crosshead.addons.vision.caption_scores",
    "classification_scores": "crosshead.addons.vision.class_scores",
    "forecast_scores": "crosshead.addons.series.forecasts",
    "multi_bleu": "crosshead.addons.vision.caption_scores",
}
"""The modules of names that add-ons define."""

__all__ = [
    "METRICS",
    "RESAMPLES",
    "SEED",
    "ClassScores",
    "ComparedScore",
    "CorpusScore",
    "ForecastScore",
    "bits_per_character",
    "bleu",
    "caption_scores",
    "classification_scores",
    "compare",
    "corpus_scores",
    "evaluate",
    "exact_match",
    "forecast_scores",
    "masked_scores",
    "multi_bleu",
    "perplexity",
    "text_scores",
]

__getattr__ = imported_at_use(__name__, _HOMES)
