"""Corpora of pairs in their files: two aligned files, or one file with both sides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from crosshead.caller import how_to_check, option
from crosshead.errors import DataError
from crosshead.system.kinds import check_sentences, head_of
from crosshead.system.lines import iter_lines
from crosshead.system.progress import counted
from crosshead.text.parallel.languages import with_tag
from crosshead.text.parallel.pairs import CHUNK, Origin, ParallelText, Sides
from crosshead.text.parallel.tables import (
    Form,
    chosen_cells,
    csv_form,
    has_header,
    is_csv,
    is_jsonl,
)


class UnequalLinesError(DataError):
    """Two aligned files have different numbers of lines."""

    def __init__(self, files: tuple[Path, Path], counts: Sequence[int], shared: int) -> None:
        fault = (
            f"{files[0]} has {counted(counts[0], 'line')} but {files[1]} has {counts[1]:,}; line n "
            "of one must be the translation of line n of the other"
        )
        named = {"source": [str(files[0])], "target": [str(files[1])]}
        super().__init__(f"{fault}; to find the place: {how_to_check(named)}")
        self.fault, self.files, self.shared = fault, files, shared


@dataclass(frozen=True)
class Part:
    """A corpus: two aligned files, or one file with both sides."""

    files: tuple[str, ...]
    fields: Sequence[str]
    """The source field and the target field of a file with both sides."""
    tag: str = ""
    """The tag before each source, such as `<2de>`, or an empty text."""
    exchanged: bool = False
    """True exchanges the sides: the second one is then the source."""
    stop_if_asked: Callable[[], None] = field(default=lambda: None, compare=False)
    """Called while the corpus is read; raises an error if reading should stop."""

    @property
    def direction(self) -> tuple[str, ...]:
        """The settings that determine the pairs beside the files; empty without a tag."""
        return (self.tag, str(self.exchanged)) if self.tag else ()

    @cached_property
    def form(self) -> Form:
        """The form of the cells in a file with both sides."""
        is_table = not self._is_lines and is_csv(Path(self.files[0]))
        return csv_form(self._lines) if is_table else Form()

    @cached_property
    def has_header(self) -> bool:
        """True if the first row of a file with both sides names the columns."""
        return not self._is_lines and has_header(self.fields)

    @cached_property
    def _places(self) -> np.ndarray:
        """The line on which each row of a CSV begins."""
        rows = self.form.rows(Path(self.files[0]), self._lines())
        return np.fromiter((number for number, _ in rows), np.int64)

    def line(self, row: int) -> int:
        """Return the line on which pair `row` (from 0) begins."""
        row += self.has_header
        return int(self._places[row]) if self.form.quoted else row + 1

    def notes(self) -> list[str]:
        """Return messages about how the file is read, or none if it needs no telling."""
        if not self.form.quoted:
            return []
        name = self.files[0]
        notes = [f"{name}: read as CSV with {self.form.between} between the cells"]
        broken = np.flatnonzero(np.diff(self._places) > 1)
        if len(broken):
            notes.append(
                f"{name}:{self._places[broken[0]]}: a line break in a cell is read as a space "
                f"(rows with one: {len(broken):,})"
            )
        return notes

    def chunks(self) -> Iterator[Sides]:
        """Yield the pairs, at most `CHUNK` at a time."""
        for left, right in self._sides():
            self.stop_if_asked()
            source, target = (right, left) if self.exchanged else (left, right)
            yield with_tag(self.tag, source), target

    def _sides(self) -> Iterator[Sides]:
        """Yield both sides as they are in the files, at most `CHUNK` pairs at a time."""
        paths = [Path(name) for name in self.files]
        if len(paths) == 2:
            yield from aligned_chunks(paths[0], paths[1])
            return
        advice = f"; {option('fields')} chooses columns by number, or by name in the first line"
        rows = chosen_cells(paths[0], self._lines(), self.fields, self.form, advice=advice)
        empty = True
        while chunk := list(islice(rows, CHUNK)):
            yield [cells[0] for _, cells in chunk], [cells[1] for _, cells in chunk]
            empty = False
        if empty:
            raise DataError(f"{paths[0]}: empty; expected a pair on every line")

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the file with both sides."""
        for number, line in enumerate(iter_lines(Path(self.files[0]))):
            if number % CHUNK == 0:
                self.stop_if_asked()
            yield line

    @property
    def _is_lines(self) -> bool:
        """True if every line is a pair: two files, or JSON Lines."""
        return len(self.files) == 2 or is_jsonl(Path(self.files[0]))


@dataclass(frozen=True)
class Corpora:
    """The pairs of files, which are not held in memory but read again at each use."""

    parts: Sequence[Part]
    counts: Sequence[int]
    """The number of pairs in each part."""

    @cached_property
    def starts(self) -> np.ndarray:
        """The row of the first pair of each part, and the number of all pairs."""
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def chunks(self) -> Iterator[Sides]:
        """Yield all sources and targets, at most `CHUNK` of each at a time."""
        for part in self.parts:
            yield from part.chunks()

    def origin(self, row: int) -> Origin:
        """Return the file and line of pair `row`."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        part = self.parts[number]
        return Origin(
            part.files[-1 if part.exchanged else 0], part.line(row - int(self.starts[number]))
        )

    def read(self) -> ParallelText:
        """Return all pairs, held in memory."""
        source: list[str] = []
        target: list[str] = []
        for left, right in self.chunks():
            source += left
            target += right
        return ParallelText(source, target, [self.origin(row) for row in range(len(self))])


def survey(parts: Sequence[Part]) -> Corpora:
    """Read the parts once and count their pairs, without holding them in memory."""
    counts = []
    has_text = False
    for part in parts:
        count = 0
        for left, right in part.chunks():
            count += len(left)
            has_text = has_text or any(
                each.strip() and other.strip() for each, other in zip(left, right, strict=True)
            )
        counts.append(count)
    if not has_text:
        # Source files first, as in the recipe.
        files = [name for side in (0, 1) for part in parts for name in part.files[side : side + 1]]
        raise DataError(f"{', '.join(files)}: no pair has text on both sides")
    return Corpora(parts, counts)


def aligned_chunks(source: Path, target: Path) -> Iterator[Sides]:
    """Yield the lines of two aligned files, at most `CHUNK` of each at a time."""
    for path in (source, target):
        check_sentences(head_of(path), str(path))
    left, right = iter_lines(source), iter_lines(target)
    before = 0
    while True:
        chunk = list(islice(left, CHUNK)), list(islice(right, CHUNK))
        if len(chunk[0]) != len(chunk[1]):
            shared = before + min(map(len, chunk))
            counts = [
                before + len(lines) + sum(1 for _ in rest)
                for lines, rest in zip(chunk, (left, right), strict=True)
            ]
            raise UnequalLinesError((source, target), counts, shared)
        if not chunk[0]:
            break
        yield chunk
        before += len(chunk[0])
    if not before:
        raise DataError(f"{source} and {target} are empty; expected a sentence on every line")
