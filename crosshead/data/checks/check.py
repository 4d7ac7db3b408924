"""All checks of parallel text, and their report."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.data.checks.alignment import (
    LEAST_ROWS,
    MOST_MISALIGNED,
    Alignment,
    misaligned,
    shift_reason,
)
from crosshead.data.checks.forms import (
    damaged,
    decomposed,
    doubled,
    empty_or_identical,
    mark_up,
)
from crosshead.data.checks.language import LEAST_LINES, LEAST_NGRAMS, LEAST_WORDS, foreign
from crosshead.data.checks.lengths import LEAST_PAIRS, odd_lengths
from crosshead.data.checks.placeholders import placeholders
from crosshead.data.checks.repeats import repeated
from crosshead.data.checks.scripts import wrong_script
from crosshead.data.checks.suspects import KINDS, REPAIRED, Suspect
from crosshead.data.parallel.pairs import Origin, ParallelText, Sides, composed
from crosshead.errors import DataError
from crosshead.system.progress import counted

_EXPLAINED = ("empty", "identical", "placeholder", "encoding", "doubled", "script", "language")
"""The kinds whose pairs are not compared by their words and lengths."""

_CLEARER = ("empty", "identical", "placeholder", "script")
"""The kinds that say more clearly than `language` why a line is unlike the rest of its side."""

REPEATS = ("duplicate", "near-duplicate", "overlap")
"""The kinds of pairs that repeat others."""


@dataclass(frozen=True)
class DataReport:
    """The suspect pairs of a text."""

    sides: Sides
    """All sources and targets."""
    suspects: Sequence[Suspect]
    """The suspect pairs, in the order of the text. A pair may be suspect for several reasons."""
    origin: Callable[[int], Origin]
    """Returns the file and the line of a row."""
    notes: Sequence[str] = ()
    """Messages about checks that were not possible."""
    verdict: str = ""
    """A sentence about the text as a whole if many of its pairs are misaligned, or ""."""

    def __len__(self) -> int:
        """Return the number of pairs that were checked."""
        return len(self.sides[0])

    def counts(self) -> dict[str, int]:
        """Return the number of suspect pairs of each kind that was found."""
        found = Counter(suspect.kind for suspect in self.suspects)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def rows(self) -> list[int]:
        """Return the rows of all suspect pairs, each once, in the order of the text."""
        return sorted({suspect.row for suspect in self.suspects})

    def dropped(self) -> list[int]:
        """Return the rows that the cleaned text lacks, in the order of the text."""
        return sorted({each.row for each in self.suspects if each.kind not in REPAIRED})

    def cleaned(self, first: int = 0, end: int | None = None) -> Sides:
        """Return the sources and targets without the dropped pairs, in the usual Unicode form.

        Args:
            first: The first row to return.
            end: The row after the last row to return (default: all).
        """
        dropped = set(self.dropped())
        repaired = {each.row for each in self.suspects if each.kind in REPAIRED}
        kept = [row for row in range(len(self))[first:end] if row not in dropped]

        def text(side: int, row: int) -> str:
            line = self.sides[side][row]
            return composed(line) if row in repaired else line

        return [text(0, row) for row in kept], [text(1, row) for row in kept]


def check_kinds(kinds: Collection[str]) -> None:
    """Raise `DataError` if one of the kinds is not in `KINDS`."""
    for kind in kinds:
        if kind not in KINDS:
            raise DataError(f"unknown kind of pairs {kind!r}; expected some of {', '.join(KINDS)}")


def check_pairs(
    sides: Sides,
    origin: Callable[[int], Origin],
    held: Sequence[ParallelText] = (),
    skip: Collection[str] = (),
) -> DataReport:
    """Look for suspect pairs in a text.

    Args:
        sides: All sources and targets.
        origin: Returns the file and the line of a row.
        held: Validation and test sets, which the text should not contain.
        skip: Kinds of suspect pairs that are not looked for; see `KINDS`.

    Returns:
        The suspect pairs, in the order of the text.

    Raises:
        DataError: If `skip` has an unknown kind.
    """
    check_kinds(skip)
    source, target = sides
    verdict = ""
    found, notes = _of_lines(sides, skip)
    found += empty_or_identical(source, target)
    if "doubled" not in skip:
        found += doubled(source, target)
    clear = {each.row for each in found if each.kind in _CLEARER}
    found = [each for each in found if each.kind != "language" or each.row not in clear]
    if "mark-up" not in skip:
        found += mark_up(source, target)
    explained = {each.row for each in found if each.kind in _EXPLAINED}
    if "misaligned" not in skip:
        rows = _others(len(source), explained)
        alignment = misaligned(source, target, rows)
        found += alignment.suspects
        explained |= {each.row for each in alignment.suspects}
        verdict = _verdict(alignment)
        if len(rows) < LEAST_ROWS:
            notes.append(
                f"misaligned pairs were not looked for: {counted(len(rows), 'pair')} to learn word "
                f"translations from, at least {LEAST_ROWS} are needed"
            )
    if "length" not in skip:
        rows = _others(len(source), explained)
        found += odd_lengths(source, target, rows)
        if len(rows) < LEAST_PAIRS:
            notes.append(
                f"odd lengths were not looked for: {counted(len(rows), 'pair')} to learn the usual "
                f"ratio from, at least {LEAST_PAIRS} are needed"
            )
    if not set(REPEATS) <= set(skip):

        def place(row: int) -> str:
            return f"{origin(row).file}:{origin(row).line}"

        dropped = {each.row for each in found if each.kind not in (*REPAIRED, *skip)}
        found += repeated(sides, held, place, dropped)
    order = {kind: number for number, kind in enumerate(KINDS)}
    kept = [suspect for suspect in found if suspect.kind not in skip]
    kept.sort(key=lambda suspect: (suspect.row, order[suspect.kind]))
    return DataReport(sides, kept, origin, notes, verdict)


def _verdict(alignment: Alignment) -> str:
    """Return a sentence about the text as a whole if many of its pairs are misaligned, or ""."""
    if alignment.share < MOST_MISALIGNED:
        return ""
    about = f"about {alignment.share:.0%} of the pairs are misaligned"
    if alignment.shift:
        return (
            f"{about}, and for most of them {shift_reason(alignment.shift)}; repair the files where"
            " the shift begins, instead of dropping the pairs (--apply)"
        )
    return (
        f"{about}, so the sides probably do not belong together line by line; repair the files, "
        "instead of dropping the pairs (--apply)"
    )


def _others(count: int, rows: Collection[int]) -> np.ndarray:
    """Return the sorted rows of a text that are not among `rows`."""
    return np.array([row for row in range(count) if row not in rows], np.int64)


def _of_lines(sides: Sides, skip: Collection[str]) -> tuple[list[Suspect], list[str]]:
    """Return the suspect lines of each side by their characters, script and language, and notes."""
    found: list[Suspect] = []
    notes = []
    source, target = sides
    names = ("source", "target")
    for lines, name in zip(sides, names, strict=True):
        for kind, check in (
            ("encoding", damaged),
            ("unicode", decomposed),
            ("script", wrong_script),
        ):
            if kind not in skip:
                found += check(lines, name)
    if "placeholder" not in skip:
        found += placeholders(source, target, names[0]) + placeholders(target, source, names[1])
    if "language" not in skip:
        for pair, name in ((sides, names[0]), (sides[::-1], names[1])):
            others = foreign(*pair, name)
            found += others or []
            if others is None:
                notes.append(
                    f"{name}s in another language were not looked for: at least {LEAST_LINES} "
                    f"different {name}s of {LEAST_NGRAMS} or more character n-grams, with "
                    f"{LEAST_WORDS} different words, are needed"
                )
    # A pair is counted once for each kind, though both its sides may have the fault.
    return list({(each.row, each.kind): each for each in found[::-1]}.values()), notes
