"""A quick check of some pairs, for the beginning of a training run."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from crosshead.caller import how_to_check, setting
from crosshead.data.checks.check import check_pairs
from crosshead.data.checks.suspects import REPAIRED
from crosshead.data.parallel.pairs import ParallelText, Text, pairs_at
from crosshead.data.parallel.section import TRAIN, VALID, DataConfig
from crosshead.system.progress import counted

MOST_ROWS = 10_000
"""The largest number of pairs that are checked. So the check takes about two seconds."""

_BLOCKS = 3
"""The number of blocks of neighbouring pairs in the sample. Only neighbours show a shift."""
_LEAST, _LEAST_SHARE = 5, 0.005
"""The smallest number and share of pairs of a kind that are worth a warning."""
_SAID_ELSEWHERE = ("empty", "near-duplicate")
"""Kinds that training reports itself, or that may be intended."""
_MANY_REPEATS = 0.1
"""The share of pairs that repeat an earlier one from which a line says so; fewer may be meant."""
_MOST_SPOILT = 0.5
"""The share of pairs with one fault from which on the data is a likely cause of a poor model."""
_MANY_HELD_OUT = 0.02
"""The share of suspect pairs among the held-out ones from which a line says so."""


class Glance(NamedTuple):
    """The findings of a quick check."""

    warnings: list[str]
    """Warnings about suspect, misaligned and repeated pairs."""
    cause: str
    """`DataReport.verdict` of the sample if half of the pairs have one fault, or "". From fewer, a
    model still learns the rest."""


def glance(
    text: Text, data: DataConfig, valid: ParallelText | None, held_out: Collection[int] = ()
) -> Glance:
    """Check a sample of pairs, and return what was found.

    Args:
        text: The training pairs.
        data: The files, for the advice.
        valid: The validation pairs of other files, or None.
        held_out: The rows of the text that are held out for validation.

    Returns:
        Warnings if pairs of a sample are suspect, misaligned or repeated, and the cause.
    """
    rows = _sample(len(text))
    pairs = pairs_at(text, rows).values()
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    held = [valid] if valid is not None else []
    report = check_pairs(sides, lambda row: text.origin(int(rows[row])), held, _SAID_ELSEWHERE)
    least = max(_LEAST, _LEAST_SHARE * len(rows))
    counts = report.counts()
    repeats = counts.pop("duplicate", 0)
    # Some identical pairs are right, such as names. The verdict tells if they are many.
    counts.pop("identical", 0)
    counts = {kind: count for kind, count in counts.items() if count >= least}
    checked = counted(len(rows), "pair")
    checked = checked if len(rows) == len(text) else f"a sample of {checked}"
    repeated = []
    if repeats >= max(_LEAST, _MANY_REPEATS * len(rows)) and not data.drop_duplicates:
        once = setting("data.drop_duplicates", value=True)
        repeated = [
            f"warning: {repeats:,} of {checked} repeat an earlier one; to use each once: {once}"
        ]
    bad = {each.row for each in report.suspects if each.kind not in (*REPAIRED, "identical")}
    held_out_lines = _among_held_out({int(rows[row]) for row in bad}, rows.tolist(), held_out)
    verdict = [f"warning: {report.verdict}"] if report.verdict else []
    cause = report.verdict if report.spoilt >= _MOST_SPOILT else ""
    if not counts:
        return Glance([*verdict, *repeated, *held_out_lines], cause)
    found = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    files = {
        # The check has no options for an old domain, so its files are named with the others.
        **{key: [*getattr(data, key), *getattr(data, f"old_{key}")] for key in TRAIN},
        **{key: getattr(data, key) for key in ("fields", *VALID)},
    }
    files = {key: names for key, names in files.items() if names}
    warnings = [
        *verdict,
        *repeated,
        f"warning: suspect pairs in {checked}: {found}; to see them: {how_to_check(files)}",
        *held_out_lines,
    ]
    return Glance(warnings, cause)


def _among_held_out(
    suspects: Collection[int], rows: Collection[int], held_out: Collection[int]
) -> list[str]:
    """Return a warning if many of the held-out pairs are suspect.

    Args:
        suspects: The suspect rows of the sample.
        rows: All rows of the sample.
        held_out: The rows that are held out for validation.
    """
    seen = set(held_out).intersection(rows)
    count = len(seen.intersection(suspects))
    if count < max(1, _MANY_HELD_OUT * len(seen)):
        return []
    return [
        f"warning: {count:,} of {counted(len(seen), 'held-out validation pair')} "
        f"{'is' if count == 1 else 'are'} suspect, so scores may mislead; give validation files, "
        "or clean the files first"
    ]


def _sample(count: int) -> np.ndarray:
    """Return the sorted rows of a few blocks that are spread over a text."""
    if count <= MOST_ROWS:
        return np.arange(count)
    size = MOST_ROWS // _BLOCKS
    begins = np.linspace(0, count - size, _BLOCKS).astype(int)
    return np.unique((begins[:, None] + np.arange(size)).ravel())
