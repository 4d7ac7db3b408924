"""Parallel text from files: aligned pairs of files, TSV, CSV and JSONL, plain or gzipped.

A file of n lines gives n pairs, except for table cells with line breaks. `crosshead.system.lines`
defines where a line ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np

from crosshead.caller import how_to_check, option
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, check_sentences, head_of, iter_lines
from crosshead.system.progress import counted
from crosshead.text.parallel.languages import (
    languages_in_names,
    tag_of,
    with_tag,
)
from crosshead.text.parallel.pairs import CHUNK, Origin, ParallelText, Sides, joined
from crosshead.text.parallel.section import DataConfig
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
        return ParallelText(*joined(self.chunks()), [self.origin(row) for row in range(len(self))])


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


def training_parts(config: DataConfig) -> list[Part]:
    """Return the training corpora: `source` and `target`, then `pairs`, then the old domain."""
    if not config.source and not config.pairs:
        raise DataError(
            f"no training data: give two line-aligned files ({option('source')} and "
            f"{option('target')}) or files with both sides ({option('pairs')}), or their keys in "
            "[data]"
        )
    new = _parts(config.source, config.target, config.pairs, config.fields)
    old = _parts(config.old_source, config.old_target, config.old_pairs, config.fields_of_old)
    return _directed([*new, *old], config)


def read_pairs(config: DataConfig) -> ParallelText:
    """Return the training pairs, held in memory."""
    return survey(training_parts(config)).read()


def read_valid_pairs(
    config: DataConfig, say: Callable[[str], None] = lambda line: None, *, old: bool = False
) -> ParallelText | None:
    """Return the validation pairs, or None if there are no files for them."""
    files = config.valid_source, config.valid_target, config.valid_pairs, config.fields
    if old:
        files = (
            config.old_valid_source, config.old_valid_target, config.old_valid_pairs,
            config.fields_of_old,
        )  # fmt: skip
    if not any(files[:3]):
        return None
    parts = _directed(_parts(*files), config)
    for part in parts:
        for note in () if part.exchanged else part.notes():
            say(note)
    return survey(parts).read()


def named_languages(config: DataConfig) -> tuple[str | None, str | None]:
    """Return the source and the target language in the names of the training files.

    File suffixes (`train.en`) give the languages of aligned files, and field names those of files
    of pairs. A side has no language if no name tells it, or if two names disagree.
    """
    files = [*zip(config.source, config.target, strict=True), *((name,) for name in config.pairs)]
    codes = [languages_in_names(names, config.fields) for names in files]
    return _only([source for source, _ in codes]), _only([target for _, target in codes])


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Return the lines of two aligned files."""
    return joined(aligned_chunks(source, target))


def _parts(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[str], fields: Sequence[str]
) -> list[Part]:
    """Return the corpora of aligned `source` and `target` files and of `pairs`."""
    for name in chain(source, target, pairs):
        check_regular(Path(name))
    aligned = [Part(names, []) for names in zip(source, target, strict=True)]
    return [*aligned, *(Part((name,), fields) for name in pairs)]


def _directed(parts: Sequence[Part], config: DataConfig) -> list[Part]:
    """Return the corpora with their tags, and with `directions` "both" also in reverse."""
    if config.directions == "one":
        return list(parts)
    languages = [languages_of(part, config) for part in parts]
    found = [
        replace(part, tag=tag_of(target))
        for part, (_, target) in zip(parts, languages, strict=True)
    ]
    if config.directions == "both":
        found += [
            replace(part, tag=tag_of(source), exchanged=True)
            for part, (source, _) in zip(parts, languages, strict=True)
        ]
    return found


def languages_of(part: Part, config: DataConfig) -> tuple[str, str]:
    """Return the source and the target language of a corpus with tags."""
    stated = config.source_language, config.target_language
    named = languages_in_names(part.files, part.fields)
    source, target = (given or name for given, name in zip(stated, named, strict=True))
    if source is None or target is None or source == target:
        raise DataError(
            f"{' and '.join(part.files)}: expected two languages in the names, such as train.en "
            f"and train.de, for data.directions = {config.directions!r}, found "
            f"{source or 'none'} and {target or 'none'}; rename the files or fields, or give "
            f"{option('source-language')} and {option('target-language')}"
        )
    return source, target


def _only(codes: Sequence[str | None]) -> str | None:
    """Return the language if all names with a language agree, else None."""
    languages = set(codes) - {None}
    return languages.pop() if len(languages) == 1 else None
