"""Scores of translations against one reference each."""

from collections.abc import Sequence

from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.sacrebleu_metrics import check_sizes, metric_scores


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
