"""Scores of the command line, shown as tables or JSON Lines."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from crosshead.bundle.places import CARD
from crosshead.cli.terminal import json_line, note, table
from crosshead.config import nearest
from crosshead.errors import BundleError, ConfigError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.sacrebleu_metrics import (
    METRICS,
    ComparedScore,
    corpus_scores,
    tokenised_warning,
)
from crosshead.system.lines import file_sha256
from crosshead.system.stored import read_stored

SCORES_FOLLOW = "; the scores follow"
"""The end of the line of progress when all is translated or read, because metrics take time too."""


def metric_names(text: str, tokenize: str | None, others: Sequence[str] = ()) -> list[str]:
    """Return the metrics in a comma-separated list.

    The check comes before the translation, so that a wrong name costs no time.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METRICS and name not in others:
            known = [*METRICS, *others]
            raise ConfigError(f"--metrics: unknown metric {name!r}; {nearest(name, known)}")
    corpus_scores(["a"], ["a"], ["bleu"], tokenize)
    return names


def say_if_tokenised(
    references: Iterable[str], where: str, metrics: Sequence[str], tokenize: str | None
) -> None:
    """Print a warning if BLEU would be measured on tokenised references."""
    if "bleu" in metrics and tokenize != "none":
        for line in tokenised_warning(references, where):
            note(line)


def scores_table(scores: Sequence[CorpusScore]) -> str:
    """Return a table of scores."""
    rows = [["metric", "score", "95 % interval", "signature"]]
    for each in scores:
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, f"{each.value:.2f}", interval, each.signature])
    return table(rows)


def comparison_table(scores: Sequence[ComparedScore]) -> str:
    """Return a table of compared scores, with the signatures below."""
    rows = [["metric", "system", "score", "95 % interval", "p"]]
    for each in scores:
        p_value = "" if each.p_value is None else f"{each.p_value:.4f}"
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, each.system, f"{each.value:.2f}", interval, p_value])
    signatures = {each.metric: each.signature for each in scores}
    lines = [f"{metric}: {signature}\n" for metric, signature in signatures.items()]
    return table(rows) + "\n" + "".join(lines)


def scores_jsonl(
    scores: Sequence[Any],
) -> str:
    """Return scores as JSON Lines; the baseline of a comparison has no `p_value`."""
    rows = [dataclasses.asdict(each) for each in scores]
    return "".join(
        json_line({key: value for key, value in row.items() if value is not None}) for row in rows
    )


SEEN = (
    "the training of this model used these data, so the scores are too good for new data; give "
    "data that were kept out of it"
)


def on_card(bundle: Path, sha256: str) -> bool:
    """Return whether the card of a bundle lists training data with this checksum."""
    try:
        return sha256.encode() in read_stored(bundle / CARD)
    except BundleError:  # a bundle need not have a card
        return False


def say_if_seen(bundles: Sequence[Path], files: Sequence[str | Path]) -> None:
    """Print a note that names the files that the card of a bundle lists as training data."""
    seen = []
    for file in files:
        if Path(file).is_file():
            sha256 = file_sha256(Path(file))
            if any(on_card(bundle, sha256) for bundle in bundles):
                seen.append(str(file))
    if seen:
        note(f"{', '.join(seen)}: {SEEN}")
