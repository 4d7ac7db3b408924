"""Scores of translations against references: BLEU, chrF and TER of sacreBLEU, with intervals."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

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
    pairs = zip(hypotheses, references, strict=True)
    return [float(_CHRF.sentence_score(text, [wanted]).score) for text, wanted in pairs]


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
        # `force` keeps sacreBLEU from printing that text looks tokenised; crosshead says so itself.
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


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[CorpusScore]:
    """Score translations against one reference each.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU in sacreBLEU, by default `default_tokenisation`; `none`
            for tokenised text, `zh`, `ja-mecab`, ...

    Returns:
        The scores, in the order of `metrics`.

    Raises:
        ConfigError: If a metric or the tokenisation is unknown.
        DataError: If the sets are empty or differ in length.
    """
    check_sizes({"hypotheses": hypotheses}, references)
    return metric_scores(hypotheses, [list(references)], metrics, tokenize)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the share, from 0 to 1, of translations that equal their reference exactly.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
    """
    check_sizes({"hypotheses": hypotheses}, references)
    hits = sum(found == wanted for found, wanted in zip(hypotheses, references, strict=True))
    return hits / len(references)


_LEAST_LINES = 10
"""Fewer lines with a full stop at their end do not tell whether text is tokenised."""

_LEAST_SHARE = 0.5
"""The smallest share of these lines, with a space before the full stop, of a tokenised text."""


def tokenised_warning(references: Iterable[str], where: str) -> list[str]:
    """Return a warning, in a list, if references are tokenised text.

    Text is tokenised if a space stands before most full stops at the ends of its lines.
    """
    ends = [line.endswith(" .") for line in map(str.rstrip, references) if line.endswith(".")]
    if len(ends) < _LEAST_LINES or sum(ends) < _LEAST_SHARE * len(ends):
        return []
    return [
        f"warning: {where}: tokenised text (a space stands before {sum(ends):,} of {len(ends):,} "
        "full stops at the ends of lines), so its BLEU compares only with BLEU on text that is "
        "tokenised in the same way; score it with `crosshead evaluate --tokenize none`, or give "
        "text that is not tokenised"
    ]


@dataclass(frozen=True)
class ComparedScore:
    """The score of one of several systems.

    `p_value` is the probability of a difference to the baseline at least this large by chance. The
    baseline, which is the first system, has None.
    """

    system: str
    metric: str
    value: float
    low: float
    high: float
    p_value: float | None
    signature: str


def compare(
    systems: dict[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[ComparedScore]:
    """Compare the translations of several systems by paired bootstrap.

    Args:
        systems: The translations of each system by its name. The first system is the baseline.
        references: The reference of each translation.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU, as for `corpus_scores`.

    Returns:
        The scores, metric by metric, in the order of the systems.

    Raises:
        ConfigError: If there are fewer than two systems, or a metric or the tokenisation is
            unknown.
        DataError: If the sets are empty or differ in length.

    Reference:
        Koehn 2004.
    """
    if len(systems) < 2:
        raise ConfigError(f"expected at least two systems to compare, found {len(systems)}")
    check_sizes(systems, references)
    test: Any = PairedTest(
        [(name, list(hypotheses)) for name, hypotheses in systems.items()],
        {name: metric_of(name, tokenize, references) for name in metrics},
        references=[list(references)],
        test_type="bs",
        n_samples=RESAMPLES,
    )
    signatures, columns = test()
    return [
        ComparedScore(
            system=system,
            metric=metric,
            value=result.score,
            low=low,
            high=high,
            p_value=_p_value(result, columns[metric][0]),
            signature=str(signatures[metric]),
        )
        for name, metric in zip(dict.fromkeys(metrics), signatures, strict=True)
        for system, result in zip(systems, columns[metric], strict=True)
        for low, high in [interval(name, result.mean, result.ci)]
    ]


def _p_value(result: Any, baseline: Any) -> float | None:
    """Return the p-value of a comparison, which is 1 for equal scores.

    sacreBLEU counts only differences strictly larger than the observed one, which is wrong for a
    difference of zero.
    """
    if result is not baseline and result.score == baseline.score:
        return 1.0
    p_value: float | None = result.p_value
    return p_value
