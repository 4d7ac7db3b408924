"""Evaluation: scores of models on test sets, their intervals, and the comparison of systems."""

from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore
from crosshead.evaluation.captions import caption_scores, multi_bleu
from crosshead.evaluation.classification import ClassScores, classification_scores
from crosshead.evaluation.comparison import ComparedScore, compare
from crosshead.evaluation.forecasts import ForecastScore, forecast_scores
from crosshead.evaluation.likelihood import (
    bits_per_character,
    masked_scores,
    perplexity,
    text_scores,
)
from crosshead.evaluation.sacrebleu_metrics import METRICS, bleu
from crosshead.evaluation.translations import corpus_scores, evaluate, exact_match

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
