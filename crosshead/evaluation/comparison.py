"""Comparison of systems by paired bootstrap."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import RESAMPLES
from crosshead.evaluation.sacrebleu_metrics import check_sizes, interval, metric_of


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
