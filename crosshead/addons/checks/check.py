"""All checks of parallel text, and their report."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crosshead.addons.checks.alignment import (
    LEAST_ROWS,
    MOST_MISALIGNED,
    SHORTEST_STRETCH,
    misaligned,
)
from crosshead.addons.checks.forms import (
    LEAST_PAIRS,
    changed_numbers,
    damaged,
    decomposed,
    empty_or_identical,
    mark_up,
    odd_lengths,
    without_words,
)
from crosshead.addons.checks.language import (
    LEAST_LINES,
    LEAST_NGRAMS,
    LEAST_WORDS,
    exchanged,
    foreign,
    letters_of,
)
from crosshead.addons.checks.repeats import repeated
from crosshead.addons.checks.suspects import KINDS, REPAIRED, Suspect
from crosshead.errors import DataError
from crosshead.text.parallel.pairs import (
    LineSides,
    Origin,
    Pair,
    ParallelText,
    Sides,
    composed,
)

_EXPLAINED = ("empty", "identical", "placeholder", "encoding", "exchanged", "language")
"""The kinds whose pairs are not compared by their words and lengths."""

_CLEARER = ("empty", "identical", "placeholder")
"""The kinds that say more clearly than `language` why a line is unlike the rest of its side."""

_MANY = {"identical": 0.5, "exchanged": 0.05, "misaligned": MOST_MISALIGNED}
"""The share of pairs of a kind from which on the report begins with them."""

_AT_ONCE, _SEED = 100_000, 1
"""The number of pairs whose languages are compared at a time, and the seed that draws them."""

REPEATS = ("duplicate", "near-duplicate", "overlap")
"""The kinds of pairs that repeat others."""


@dataclass(frozen=True)
class DataReport:
    """The suspect pairs of a text."""

    sides: LineSides
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
        return sorted(_rows(self.suspects, KINDS))

    def stretches(self) -> list[tuple[Suspect, Suspect]]:
        """Return the first and the last pair of each stretch that is shifted by the same lines.

        Too few rows for a stretch of their own do not end one.
        """
        found: list[tuple[Suspect, Suspect]] = []
        for suspect in (each for each in self.suspects if each.shift):
            first, last = found[-1] if found else (suspect, suspect)
            if suspect.shift == last.shift and suspect.row - last.row <= SHORTEST_STRETCH:
                found[-1:] = [(first, suspect)]
            else:
                found.append((suspect, suspect))
        return found

    def dropped(self) -> list[int]:
        """Return the rows that the cleaned text lacks, in the order of the text."""
        return sorted(_rows(self.suspects, set(KINDS) - set(REPAIRED)))

    def cleaned(self, first: int = 0, end: int | None = None) -> Sides:
        """Return the sources and targets without the dropped pairs, in the usual Unicode form."""
        kept = [*self.kept(first, end)]
        return [source for source, _ in kept], [target for _, target in kept]

    def kept(self, first: int = 0, end: int | None = None) -> Iterator[Pair]:
        """Yield the pairs that `cleaned` returns."""
        dropped, repaired = set(self.dropped()), _rows(self.suspects, REPAIRED)
        for row in range(len(self))[first:end]:
            if row not in dropped:
                pair = self.sides[0][row], self.sides[1][row]
                yield (composed(pair[0]), composed(pair[1])) if row in repaired else pair


def check_kinds(kinds: Collection[str]) -> None:
    """Raise `DataError` if one of the kinds is not in `KINDS`."""
    for kind in kinds:
        if kind not in KINDS:
            raise DataError(f"unknown kind of pairs {kind!r}; expected some of {', '.join(KINDS)}")


def check_pairs(
    sides: LineSides,
    origin: Callable[[int], Origin],
    held: Sequence[ParallelText] = (),
    skip: Collection[str] = (),
    advance: Callable[[float, str], None] = lambda share, step: None,
) -> DataReport:
    """Look for suspect pairs in a text.

    Skipped kinds are found, too, because they may explain why a pair is unlike the others, but they
    are not in the report. `advance` is called before each step with the share of the usual time
    that has passed, and the name of the step.
    """
    check_kinds(skip)
    advance(0.0, "checking the form of each pair")
    found = _of_lines(sides) + empty_or_identical(*sides) + mark_up(*sides)
    shuffled = np.random.default_rng(_SEED).permutation(len(sides[0]))
    parts = np.array_split(shuffled, len(shuffled) // _AT_ONCE + 1)
    languages: list[Suspect] = []
    notes: dict[str, str] = {}
    usual = None
    for number, part in enumerate(parts):
        advance(0.11 + 0.2 * number / len(parts), "looking for other languages")
        chosen = np.sort(part)
        source, target = (letters_of(side[row] for row in chosen) for side in sides)
        of_part, why, usual = _in_other_languages(source, target, usual)
        languages += [each._replace(row=int(chosen[each.row])) for each in of_part]
        notes |= why
    clear = _rows(found, _CLEARER)
    found += [each for each in languages if each.row not in clear]
    rows = _others(len(sides[0]), _rows(found, _EXPLAINED))
    notes |= _too_few("misaligned", rows, LEAST_ROWS, sides)
    advance(0.31, "looking for misaligned pairs")
    alignment = misaligned(*sides, rows)
    found += alignment.suspects
    advance(0.83, "comparing lengths and numbers")
    explained = _rows(found, (*_EXPLAINED, "misaligned"))
    rows = _others(len(sides[0]), explained)
    notes |= _too_few("length", rows, LEAST_PAIRS, sides)
    found += odd_lengths(*sides, rows)
    found += [each for each in changed_numbers(*sides) if each.row not in explained]

    def place(row: int) -> str:
        return f"{origin(row).file}:{origin(row).line}"

    advance(0.88, "looking for repeats")
    dropped = _rows(found, set(KINDS) - {*REPAIRED, *skip})
    empty = _rows(found, ("empty",))
    found += [each for each in repeated(sides, held, place, dropped) if each.row not in empty]
    advance(1.0, "checked")
    shares = {kind: len(_rows(found, (kind,))) / max(1, len(sides[0])) for kind in _MANY}
    shares["misaligned"] = alignment.share
    many = [kind for kind in _MANY if shares[kind] >= _MANY[kind] and kind not in skip]
    order = {kind: number for number, kind in enumerate(KINDS)}
    kept = [suspect for suspect in found if suspect.kind not in skip]
    kept.sort(key=lambda suspect: (suspect.row, order[suspect.kind]))
    return DataReport(
        sides,
        kept,
        origin,
        [
            f"no pairs of the kind {kind} were looked for: {why}"
            for kind, why in notes.items()
            if kind not in skip
        ],
        "; ".join(_verdict(kind, shares[kind], kept, origin) for kind in many),
        max((shares[kind] for kind in many), default=0.0),
    )


def _too_few(kind: str, rows: np.ndarray, least: int, sides: LineSides) -> dict[str, str]:
    """Return why a kind was not looked for, if there are too few rows to learn from."""
    why = (
        f"it needs at least {least} pairs that are not suspect otherwise, found {len(rows):,} of "
        f"{len(sides[0]):,}"
    )
    return {kind: why} if len(rows) < least else {}


def _verdict(
    kind: str, share: float, suspects: Sequence[Suspect], origin: Callable[[int], Origin]
) -> str:
    """Return a clause about the text as a whole, of which a share is of one kind."""
    if kind == "identical":
        return f"both sides hold the same text in {share:.0%} of the pairs; translate one of them"
    if kind == "exchanged":
        return f"{share:.0%} of the pairs have exchanged sides; exchange them back"
    shifted = [each for each in suspects if each.shift]
    where = "the sides do not belong together line by line"
    if 2 * len(shifted) > sum(each.kind == "misaligned" for each in suspects):
        file, line = origin(shifted[0].row)
        where = f"at {file}:{line} {shifted[0].reason}"
    return (
        f"an estimated {share:.0%} of the pairs are misaligned: {where}; repair the files, "
        "instead of dropping the pairs"
    )


def _rows(suspects: Sequence[Suspect], kinds: Collection[str]) -> set[int]:
    """Return the rows that are suspect for a reason of some kinds."""
    return {each.row for each in suspects if each.kind in kinds}


def _others(count: int, rows: Collection[int]) -> np.ndarray:
    """Return the sorted rows of a text that are not among `rows`."""
    return np.delete(np.arange(count, dtype=np.int32), sorted(rows))


def _of_lines(sides: LineSides) -> list[Suspect]:
    """Return the suspect lines of each side by their characters."""
    found: list[Suspect] = []
    for lines, others, name in ((*sides, "source"), (*sides[::-1], "target")):
        found += without_words(lines, others, name) + damaged(lines, name) + decomposed(lines, name)
    return _once(found)


def _in_other_languages(
    source: list[str], target: list[str], usual: np.ndarray | None
) -> tuple[list[Suspect], dict[str, str], np.ndarray | None]:
    """Return the pairs with a side in a wrong language, and why a kind was not looked for.

    Exchanged pairs are put right first, so that each side has one language to compare with. The
    last value is the one that `exchanged` returns for further parts of the text. The lists have the
    letters of the lines, and are changed.
    """
    swapped, usual = exchanged(source, target, usual)
    found = swapped or []
    wrong = {each.row for each in found}
    for row in wrong:
        source[row], target[row] = target[row], source[row]
    others = foreign(source, target, "source"), foreign(target, source, "target")
    for each in others:
        found += [suspect for suspect in each or [] if suspect.row not in wrong]
    why = (
        f"each side needs at least {LEAST_LINES} different lines of {LEAST_NGRAMS} or more "
        f"letters, and {LEAST_WORDS} words"
    )
    missing = {"exchanged": swapped is None, "language": None in others}
    return _once(found), {kind: why for kind in missing if missing[kind]}, usual


def _once(found: Sequence[Suspect]) -> list[Suspect]:
    """Return one suspect for each pair and kind, though both sides may have the fault."""
    return list({(each.row, each.kind): each for each in found[::-1]}.values())
