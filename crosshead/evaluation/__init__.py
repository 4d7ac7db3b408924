"""Evaluation: scores of models on test sets, their intervals, and the comparison of systems."""

from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore
from crosshead.evaluation.sacrebleu_metrics import (
    METRICS,
    ComparedScore,
    bleu,
    compare,
    corpus_scores,
    exact_match,
)
from crosshead.extensions import imported_at_use

_HOMES = {
    "bits_per_character": "crosshead.tasks.likelihood",
    "evaluate": "crosshead.tasks.translation.scores",
    "masked_scores": "crosshead.tasks.likelihood",
    "perplexity": "crosshead.tasks.likelihood",
    "text_scores": "crosshead.tasks.likelihood",
    "ClassScores": "crosshead.addons.vision.scores",
    "ForecastScore": "crosshead.addons.series.forecasting",
    "caption_scores": "crosshead.addons.vision.scores",
    "classification_scores": "crosshead.addons.vision.scores",
    "forecast_scores": "crosshead.addons.series.forecasting",
    "multi_bleu": "crosshead.addons.vision.scores",
}
"""The modules of names that need models, and of those that add-ons define."""

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
