"""Scores of captions against one or more references each."""

from collections.abc import Sequence
from typing import Any

from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore, accuracy, bootstrapped
from crosshead.evaluation.sacrebleu_metrics import (
    check_sizes,
    metric_of,
    metric_scores,
    sentence_chrf,
)
from crosshead.version import __version__


def multi_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return BLEU against several references each, with `default_tokenisation` and no interval.

    Args:
        hypotheses: The texts.
        references: The references of each text, at least one.
    """
    streams = _streams(references)
    metric = metric_of("bleu", None, streams[0])
    return float(metric.corpus_score(list(hypotheses), streams).score)


def caption_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[CorpusScore]:
    """Score captions against one or more references each, and by exact match.

    Args:
        hypotheses: The captions.
        references: The references of each caption, at least one.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU, as for `corpus_scores`.

    Returns:
        The scores, in the order of `metrics`, and then exact match: the percentage of captions that
        equal one of their references.

    Raises:
        ConfigError: If a metric or the tokenisation is unknown.
        DataError: If the sets are empty or differ in length.
    """
    check_sizes({"captions": hypotheses}, references)
    scores = metric_scores(hypotheses, _streams(references), metrics, tokenize)
    hits = [
        (0.0, 1, int(text in wanted)) for text, wanted in zip(hypotheses, references, strict=True)
    ]
    signature = f"bs:{RESAMPLES}|seed:{SEED}|per:text|version:crosshead-{__version__}"
    return [*scores, bootstrapped("exact match, %", hits, accuracy, signature)]


def nearest_references(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Return the reference that is nearest to each text: an equal one, or the best by chrF2."""
    found = []
    for text, wanted in zip(hypotheses, references, strict=True):
        scores = sentence_chrf([text] * len(wanted), wanted)
        # chrF2 ignores white space, so that several references may have the score of an equal one.
        ranks = [(each == text, score) for each, score in zip(wanted, scores, strict=True)]
        found.append(wanted[ranks.index(max(ranks))])
    return found


def _streams(references: Sequence[Sequence[str]]) -> list[Any]:
    """Return references as sacreBLEU takes them: the first of each text, the second, and so on."""
    most = max(map(len, references))
    return [
        [each[number] if number < len(each) else None for each in references]
        for number in range(most)
    ]
