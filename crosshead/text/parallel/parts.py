"""Corpora of pairs in their files: two aligned files, or one file with both sides."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np

from crosshead.caller import how_to_check
from crosshead.errors import DataError
from crosshead.system.kinds import check_sentences, head_of
from crosshead.system.lines import iter_lines
from crosshead.text.parallel.delimited import Layout, layout_of
from crosshead.text.parallel.directions import with_tag
from crosshead.text.parallel.pairs import CHUNK, Origin, ParallelText, Sides
from crosshead.text.parallel.tables import (
    header_notes,
    is_header,
    is_jsonl,
    jsonl_pairs,
    table_pairs,
)


class UnequalLinesError(DataError):
    """Two aligned files have different numbers of lines."""

    def __init__(self, fault: str, files: tuple[Path, Path], shared: int) -> None:
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

    @property
    def direction(self) -> tuple[str, ...]:
        """The settings that determine the pairs beside the files; empty without a tag."""
        return (self.tag, str(self.exchanged)) if self.tag else ()

    @cached_property
    def layout(self) -> Layout:
        """The layout of the cells in a file with both sides. Its first use reads the whole file."""
        path = Path(self.files[0])
        return Layout() if self._is_lines else layout_of(path, self._lines)

    @cached_property
    def has_header(self) -> bool:
        """True if the first record of a file with both sides names the columns."""
        if self._is_lines:
            return False
        records = self.layout.records(Path(self.files[0]), self._lines())
        return is_header(next(records, (0, []))[1], self.fields)

    def line(self, row: int) -> int:
        """Return the line on which pair `row` (from 0) begins."""
        return self.layout.line(row + self.has_header)

    def notes(self) -> list[str]:
        """Return messages about how the file is read, and warnings if this may be wrong."""
        if self._is_lines:
            return []
        path = Path(self.files[0])
        return [
            *self.layout.notes,
            *header_notes(path, self._lines(), self.fields, self.layout),
        ]

    def chunks(self) -> Iterator[Sides]:
        """Yield the pairs, at most `CHUNK` at a time."""
        for left, right in self._sides():
            source, target = (right, left) if self.exchanged else (left, right)
            yield with_tag(self.tag, source), target

    def _sides(self) -> Iterator[Sides]:
        """Yield both sides as they are in the files, at most `CHUNK` pairs at a time."""
        paths = [Path(name) for name in self.files]
        if len(paths) == 2:
            yield from aligned_chunks(paths[0], paths[1])
            return
        if self._is_lines:
            pairs = jsonl_pairs(paths[0], self._lines(), self.fields)
        else:
            pairs = table_pairs(paths[0], self._lines(), self.fields, self.layout)
        empty = True
        while chunk := list(islice(pairs, CHUNK)):
            yield [pair[0] for pair in chunk], [pair[1] for pair in chunk]
            empty = False
        if empty:
            raise DataError(f"{paths[0]}: empty; expected a pair on every line")

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the file with both sides."""
        return iter_lines(Path(self.files[0]))

    @property
    def _is_lines(self) -> bool:
        """True if every line is a pair: two files, or JSON Lines."""
        return len(self.files) == 2 or is_jsonl(Path(self.files[0]))


@dataclass(frozen=True)
class StoppablePart(Part):
    """A corpus that calls `stop_if_asked` while it is read."""

    stop_if_asked: Callable[[], None] = lambda: None
    """Raises an error if reading should stop."""

    def chunks(self) -> Iterator[Sides]:
        """Yield the pairs, at most `CHUNK` at a time."""
        for sides in super().chunks():
            self.stop_if_asked()
            yield sides

    def _lines(self) -> Iterator[str]:
        for number, line in enumerate(super()._lines()):
            if number % CHUNK == 0:
                self.stop_if_asked()
            yield line


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
            shared = min(map(len, chunk))
            surplus = [
                [bool(line.strip()) for line in chain(lines[shared:], rest)]
                for lines, rest in zip(chunk, (left, right), strict=True)
            ]
            raise _unequal((source, target), before + shared, surplus)
        if not chunk[0]:
            break
        yield chunk
        before += len(chunk[0])
    if not before:
        raise DataError(f"{source} and {target} are empty; expected a sentence on every line")


def _unequal(paths: tuple[Path, Path], shared: int, surplus: Sequence[Sequence[bool]]) -> DataError:
    """Return the error for two files with different numbers of lines."""
    counts = [shared + len(each) for each in surplus]
    lines = f"{counts[0]} line{'' if counts[0] == 1 else 's'}"
    fault = f"{paths[0]} has {lines} but {paths[1]} has {counts[1]}"
    if any(map(any, surplus)):
        rule = "line n of one must be the translation of line n of the other"
        return UnequalLinesError(f"{fault}; {rule}", paths, shared)
    longer, more = paths[counts[1] > counts[0]], abs(counts[0] - counts[1])
    last = "line" if more == 1 else f"{more} lines"
    return DataError(
        f"{fault}; remove the last {last} of {longer}, which {'is' if more == 1 else 'are'} empty"
    )
