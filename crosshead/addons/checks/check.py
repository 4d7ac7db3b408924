"""All checks of parallel text, and their report."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.addons.checks.alignment import (
    GAP,
    LEAST_ROWS,
    MOST_MISALIGNED,
    Alignment,
    misaligned,
)
from crosshead.addons.checks.encoding import damaged
from crosshead.addons.checks.exchanged import exchanged
from crosshead.addons.checks.forms import (
    decomposed,
    doubled,
    empty_or_identical,
    mark_up,
)
from crosshead.addons.checks.language import foreign
from crosshead.addons.checks.lengths import LEAST_PAIRS, odd_lengths
from crosshead.addons.checks.ngrams import LEAST_LINES, LEAST_NGRAMS, LEAST_WORDS
from crosshead.addons.checks.numbers import changed_numbers
from crosshead.addons.checks.placeholders import placeholders
from crosshead.addons.checks.repeats import repeated
from crosshead.addons.checks.scripts import wrong_script
from crosshead.addons.checks.suspects import KINDS, REPAIRED, Suspect
from crosshead.errors import DataError
from crosshead.text.parallel.pairs import Origin, ParallelText, Sides, composed

_EXPLAINED = (
    "empty", "identical", "placeholder", "encoding", "doubled", "script", "exchanged", "language",
)  # fmt: skip
"""The kinds whose pairs are not compared by their words and lengths."""

_CLEARER = ("empty", "identical", "placeholder", "script")
"""The kinds that say more clearly than `language` why a line is unlike the rest of its side."""

_MANY = {
    "identical": (
        0.5,
        "both sides hold the same text in {share:.0%} of the pairs; one side should be a "
        "translation",
    ),
    "exchanged": (
        0.05,
        "{share:.0%} of the pairs have exchanged sides; exchange them back, instead of dropping "
        "the pairs",
    ),
}
"""The share of pairs of a kind from which on the report begins with them, and its words."""

_SORTED = 0.9
"""The share of lines in alphabetical order from which a side was sorted. Spreadsheets and Unicode
sort some letters differently."""

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
    """Clauses about the text as a whole if many of its pairs have one fault, or ""."""
    spoilt: float = 0.0
    """The share of the pairs that have the most frequent of these faults."""

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

    def stretches(self) -> list[tuple[Suspect, Suspect]]:
        """Return the first and the last pair of each stretch that is shifted by the same lines."""
        return _stretches(self.suspects)

    def dropped(self) -> list[int]:
        """Return the rows that the cleaned text lacks, in the order of the text."""
        return sorted({each.row for each in self.suspects if each.kind not in REPAIRED})

    def cleaned(self, first: int = 0, end: int | None = None) -> Sides:
        """Return the sources and targets without the dropped pairs, in the usual Unicode form."""
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
    """Look for suspect pairs in a text."""
    check_kinds(skip)
    wanted = set(KINDS) - set(skip)
    found, notes = _explained(sides, wanted)
    explained = {each.row for each in found if each.kind in _EXPLAINED}
    shares = {kind: _share(kind, found, len(sides[0])) for kind in _MANY if kind in wanted}
    many = [kind for kind, share in shares.items() if share >= _MANY[kind][0]]
    verdict = [_MANY[kind][1].format(share=shares[kind]) for kind in many]
    spoilt = max(shares.values(), default=0.0)
    # If the sides are the same, it says nothing that few pairs are left for other checks.
    are_same = "identical" in many
    if wanted & {"misaligned", "length"}:
        rows = _others(len(sides[0]), explained)
        alignment = misaligned(*sides, rows)
        found += alignment.suspects
        explained |= {each.row for each in alignment.suspects}
        if "misaligned" in wanted:
            verdict += _verdict(alignment, sides, origin)
            spoilt = max(spoilt, alignment.share)
            if not are_same:
                notes += _too_few(rows, sides, LEAST_ROWS, "misaligned pairs", "word translations")
    if "length" in wanted:
        rows = _others(len(sides[0]), explained)
        found += odd_lengths(*sides, rows)
        if not are_same:
            notes += _too_few(rows, sides, LEAST_PAIRS, "odd lengths", "the usual ratio")
    if "number" in wanted:
        found += [each for each in changed_numbers(*sides) if each.row not in explained]
    if wanted & set(REPEATS):

        def place(row: int) -> str:
            return f"{origin(row).file}:{origin(row).line}"

        dropped = {each.row for each in found if each.kind in wanted - set(REPAIRED)}
        empty = {each.row for each in found if each.kind == "empty"}
        repeats = repeated(sides, held, place, dropped)
        found += [each for each in repeats if each.row not in empty]
    order = {kind: number for number, kind in enumerate(KINDS)}
    kept = [suspect for suspect in found if suspect.kind in wanted]
    kept.sort(key=lambda suspect: (suspect.row, order[suspect.kind]))
    return DataReport(sides, kept, origin, notes, "; ".join(verdict), spoilt)


def _explained(sides: Sides, wanted: Collection[str]) -> tuple[list[Suspect], list[str]]:
    """Return the suspects of all kinds that come before the comparison of both sides, and notes.

    A kind that is not wanted is found, too, if it explains why a pair is unlike the others:
    otherwise the pair would be suspect of another kind.
    """
    source, target = sides
    found = _of_lines(sides) + empty_or_identical(source, target)
    found += doubled(source, target) + mark_up(source, target)
    if not {"exchanged", "language", "misaligned", "length"} & set(wanted):
        return found, []
    clear = {each.row for each in found if each.kind in _CLEARER}
    languages, missing = _in_other_languages(sides)
    found += [each for each in languages if each.row not in clear]
    return found, _too_few_lines([name for name, kind in missing.items() if kind in wanted])


def _too_few(rows: np.ndarray, sides: Sides, least: int, kind: str, learned: str) -> list[str]:
    """Return a note that a kind was not looked for, if there are too few rows to learn from."""
    if len(rows) >= least:
        return []
    return [
        f"{kind} were not looked for: learning {learned} needs at least {least} pairs that are not "
        f"suspect otherwise, found {len(rows):,} of {len(sides[0]):,}"
    ]


def _too_few_lines(missing: Sequence[str]) -> list[str]:
    """Return a note that kinds of pairs were not looked for, if lines are too few to learn from."""
    if not missing:
        return []
    *names, last = missing
    listed = f"{', '.join(names)} and {last}" if names else last
    return [
        f"{listed} were not looked for: each side needs at least {LEAST_LINES} different lines of "
        f"{LEAST_NGRAMS} or more letters, and {LEAST_WORDS} different words"
    ]


def _share(kind: str, found: Sequence[Suspect], pairs: int) -> float:
    """Return the share of pairs that are suspect for a reason of a kind."""
    return sum(each.kind == kind for each in found) / max(1, pairs)


def _verdict(alignment: Alignment, sides: Sides, origin: Callable[[int], Origin]) -> list[str]:
    """Return a clause about the text as a whole if many of its pairs are misaligned."""
    if alignment.share < MOST_MISALIGNED:
        return []
    about = f"an estimated {alignment.share:.0%} of the pairs are misaligned"
    shifted = sum(each.shift != 0 for each in alignment.suspects)
    if 2 * shifted > len(alignment.suspects):
        first, _ = _stretches(alignment.suspects)[0]
        file, line = origin(first.row)
        return [
            f"{about}, most of them because lines are missing or added: at {file}:{line} "
            f"{first.reason}; repair the files where the shift begins, instead of dropping the "
            "pairs"
        ]
    return [
        f"{about}, so the sides probably do not belong together line by line{_sorted_side(sides)}; "
        "repair the files, instead of dropping the pairs"
    ]


def _sorted_side(sides: Sides) -> str:
    """Return a clause that says that one side alone is in alphabetical order, or ""."""
    in_order = [
        name for name, lines in zip(("sources", "targets"), sides, strict=True)
        if _share_in_order(lines) >= _SORTED
    ]  # fmt: skip
    if len(in_order) != 1:
        return ""
    return f": the {in_order[0]} are in alphabetical order, and the opposite side is not"


def _share_in_order(lines: Sequence[str]) -> float:
    """Return the share of lines that do not come before the line above in the alphabet."""
    keys = [line.casefold() for line in lines]
    rising = sum(above <= below for above, below in itertools.pairwise(keys))
    return rising / max(1, len(keys) - 1)


def _stretches(suspects: Sequence[Suspect]) -> list[tuple[Suspect, Suspect]]:
    """Return the first and the last pair of each stretch that is shifted by the same lines."""
    found: list[tuple[Suspect, Suspect]] = []
    for suspect in (each for each in suspects if each.shift):
        first, last = found[-1] if found else (suspect, suspect)
        if suspect.shift == last.shift and suspect.row - last.row <= GAP:
            found[-1:] = [(first, suspect)]
        else:
            found.append((suspect, suspect))
    return found


def _others(count: int, rows: Collection[int]) -> np.ndarray:
    """Return the sorted rows of a text that are not among `rows`."""
    return np.array([row for row in range(count) if row not in rows], np.int64)


def _of_lines(sides: Sides) -> list[Suspect]:
    """Return the suspect lines of each side by their characters, script and placeholders."""
    source, target = sides
    found = placeholders(source, target, "source") + placeholders(target, source, "target")
    for lines, name in ((source, "source"), (target, "target")):
        found += damaged(lines, name) + decomposed(lines, name) + wrong_script(lines, name)
    return _once(found)


def _in_other_languages(sides: Sides) -> tuple[list[Suspect], dict[str, str]]:
    """Return the pairs with a side in a wrong language, and what could not be looked for.

    Exchanged pairs are put right first, so that each side has one language to compare with.
    """
    swapped = exchanged(*sides)
    missing = {"exchanged sides": "exchanged"} if swapped is None else {}
    found = swapped or []
    wrong = {each.row for each in found}
    repaired: Sides = [*sides[0]], [*sides[1]]
    for row in wrong:
        repaired[0][row], repaired[1][row] = sides[1][row], sides[0][row]
    for pair, name in ((repaired, "source"), (repaired[::-1], "target")):
        others = foreign(*pair, name)
        found += [each for each in others or [] if each.row not in wrong]
        if others is None:
            missing[f"{name}s in another language"] = "language"
    return _once(found), missing


def _once(found: Sequence[Suspect]) -> list[Suspect]:
    """Return one suspect for each pair and kind, though both sides may have the fault."""
    return list({(each.row, each.kind): each for each in found[::-1]}.values())
