"""sacreBLEU's metrics: BLEU, chrF and TER of texts against references, with intervals."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from crosshead.config import nearest, shown
from crosshead.errors import ConfigError, DataError
from crosshead.evaluation.bootstrap import RESAMPLES, CorpusScore
from crosshead.text.scripts import UNSPACED, letters_by_script

METRICS = ("bleu", "chrf", "ter")
"""The metrics that compare translations with a reference, computed by sacreBLEU (Post 2018)."""


def metric_scores(
    hypotheses: Sequence[str],
    streams: Sequence[Sequence[str | None]],
    metrics: Sequence[str],
    tokenize: str | None,
) -> list[CorpusScore]:
    """Return scores of texts with their intervals, in the order of `metrics`."""
    scores = []
    for name in metrics:
        metric = metric_of(name, tokenize, streams[0])
        result = metric.corpus_score(list(hypotheses), streams, n_bootstrap=RESAMPLES)
        low, high = interval(name, result._mean, result._ci)
        signature = str(metric.get_signature())
        scores.append(CorpusScore(result.name, result.score, low, high, signature))
    return scores


def interval(name: str, mean: float, half: float) -> tuple[float, float]:
    """Return the ends of an interval that sacreBLEU gives, cut to the scale of the metric."""
    most = math.inf if name == "ter" else 100.0
    return max(0.0, mean - half), min(most, mean + half)


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU with `default_tokenisation` and without an interval, which is fast.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
    """
    metric = metric_of("bleu", None, references)
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score)


def default_tokenisation(references: Iterable[str | None]) -> str:
    """Return the tokenisation of BLEU for some text.

    It is 13a if words have spaces between them. Otherwise a sentence would be one word. Then it is
    `zh` for Chinese, and `char` if most letters are of another such script.
    """
    letters = letters_by_script(text for text in references if text)
    unspaced = sum(letters[script] for script in UNSPACED)
    if 2 * unspaced <= letters.total():
        return "13a"
    # Japanese has Han characters too, but hardly a sentence without kana.
    return "zh" if letters["CJK"] > _MOST_HAN * unspaced else "char"


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """Return the chrF2 of each text by itself."""
    metric = _Chrf()
    pairs = zip(hypotheses, references, strict=True)
    return [metric.sentence_score(text, [wanted]).score for text, wanted in pairs]


def chrf_utility(candidate: str, reference: str) -> float:
    """Return the chrF2 of a text against another, as a utility for minimum Bayes risk.

    Args:
        candidate: The text that is scored.
        reference: The text that it is compared with.
    """
    return float(_CHRF.sentence_score(candidate, [reference]).score)


_MOST_HAN = 0.95
"""The share of Han characters from which text without spaces is Chinese."""


class _Floats:
    """A metric whose scores are always plain floats, as BLEU's are.

    Scores of chrF and TER are NumPy numbers unless nothing matches or there is nothing to match.
    sacreBLEU's bootstrap cannot add both types.
    """

    def _compute_score_from_stats(self, stats: list[Any]) -> Any:
        result = super()._compute_score_from_stats(stats)  # type: ignore[misc]
        result.score = float(result.score)
        return result


class _Chrf(_Floats, CHRF): ...


_CHRF = _Chrf()


class _Ter(_Floats, TER): ...


def metric_of(name: str, tokenize: str | None, references: Iterable[str | None]) -> Any:
    """Return sacreBLEU's object for a metric."""
    if name == "chrf":
        return _Chrf()
    if name == "ter":
        return _Ter()
    if name != "bleu":
        raise ConfigError(f"unknown metric {name!r}; {nearest(name, list(METRICS))}")
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        known = list(BLEU.TOKENIZERS)
        raise ConfigError(f"unknown tokenisation {tokenize!r}; {nearest(tokenize, known)}")
    tokenize = tokenize or default_tokenisation(references)
    try:
        # `force` keeps sacreBLEU from printing that text looks tokenised; `tokenised.py` says so.
        return BLEU(tokenize=tokenize, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        # Some tokenisations of sacreBLEU need another package or a download.
        reason = " ".join(str(error).split())
        raise ConfigError(f"tokenisation {tokenize!r} cannot be used here: {reason}") from None


def check_lists(given: dict[str, Any]) -> None:
    """Raise `DataError` for a text, which is a sequence of characters, or the name of a file."""
    for name, texts in given.items():
        if isinstance(texts, str | os.PathLike):
            raise DataError(
                f"{name}: expected a list of sentences, found {shown(texts)}; read the lines of a "
                "file into a list first"
            )


def check_sizes(systems: dict[str, Sequence[str]], references: Sequence[Any]) -> None:
    """Check that each system has a text for each reference, and that there are references."""
    check_lists({**systems, "references": references})
    if not references:
        raise DataError("no references: the test set is empty")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise DataError(
                f"expected a reference for each translation, found {len(hypotheses)} translations "
                f"({name}) and {len(references)} references"
            )
