"""Parallel text from files: line-aligned pairs of files, TSV, CSV and JSONL, plain or gzipped.

A file of n lines gives n pairs, but for cells of a table that hold line breaks:
`crosshead.system.lines` says where a line ends.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crosshead.config import MOST, called
from crosshead.data.parallel.delimited import Layout, layout_of
from crosshead.data.parallel.languages import looks_like_code
from crosshead.data.parallel.pairs import CHUNK, Origin, ParallelText, Sides
from crosshead.data.parallel.tables import (
    has_header,
    header_warning,
    is_jsonl,
    jsonl_pairs,
    table_pairs,
)
from crosshead.data.section import DataSection
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, iter_lines


def _listed(value: Any) -> Any:
    """Return one name as a list, and paths as text."""
    names = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(names, list):
        return names
    return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in names]


def _check_names(names: list[str]) -> list[str]:
    for name in names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            # The recipe and the model card, which name it, are UTF-8.
            raise ValueError(f"{name!a} is not UTF-8: give it another name")
        if "\0" in name:
            raise ValueError(f"{name!a} is no name of a file: it holds a NUL; leave that out")
    return names


_Names = Annotated[list[str], BeforeValidator(_listed), AfterValidator(_check_names)]
_Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
PAIRED = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
"""The keys that name files of pairs."""


class DataConfig(DataSection):
    """Files and filters of the text to train on: the section `[data]` of a recipe."""

    file_keys: ClassVar[tuple[str, ...]] = (*PAIRED, "text", "valid_text")

    source: _Names = Field(default_factory=list)
    """Files of source sentences, one a line; a single name may stand without brackets."""

    target: _Names = Field(default_factory=list)
    """Files of their translations, one for each file of `source`, line by line."""

    pairs: _Names = Field(default_factory=list)
    """Files with both sides: JSON Lines where the name ends in `.jsonl`, CSV where it ends in
    `.csv`, and otherwise TSV. Quotes around cells, as spreadsheets write them, are left out."""

    fields: _Names = Field(default_factory=list)
    """The source field and the target field of `pairs`: names (in TSV and CSV, those of the first
    line) or, in TSV and CSV, numbers of columns from 1. A file of two columns needs none."""

    valid_source: _Names = Field(default_factory=list)
    """Files of source sentences for validation, in the form of `source`."""

    valid_target: _Names = Field(default_factory=list)
    """Files of translations for validation, in the form of `target`."""

    valid_pairs: _Names = Field(default_factory=list)
    """Files of pairs for validation, in the form of `pairs`."""

    text: _Names = Field(default_factory=list)
    """Files of text by itself, for language models; they follow each other as one text."""

    valid_text: _Names = Field(default_factory=list)
    """Files of monolingual text for validation, in the form of `text`."""

    valid_share: float = Field(default=0.1, gt=0, lt=1)
    """Without `valid_text` so much of the text, its end, is held out of training."""

    context: int = Field(default=256, gt=0, le=2**24)
    """Tokens of a window of text: what a language model sees at once in training."""

    valid_size: int = Field(default=500, gt=0, le=MOST)
    """Without validation files so many pairs, one to a tenth of all, are held out of training."""

    max_length: int = Field(default=256, gt=0, le=2**24)
    """A pair with more tokens than this on either side is left out of training."""

    max_ratio: float = Field(default=9.0, ge=1, le=1e6)
    """A pair is left out of training when one side has more than this many times the tokens of
    the other, and five more."""

    drop_duplicates: bool = False
    """Leave pairs out of training that repeat an earlier one, but for white space around it."""

    weights: list[_Weight] = Field(default_factory=list)
    """Passes through each corpus in an epoch (each file of `source`, then each of `pairs`): 2 gives
    each pair twice, 0.5 half of the pairs, drawn anew in each epoch. Unset: one pass."""

    source_language: str | None = None
    """Language code of the sources, such as `en`, for the bundle and its card. Unset: the language
    that the suffixes of files or the names in `fields` tell, where they tell both."""

    target_language: str | None = None
    """Language code of the targets, in the same way."""

    @field_validator("source_language", "target_language")
    @classmethod
    def _is_code(cls, code: str | None) -> str | None:
        if code is not None and not looks_like_code(code):
            raise ValueError(f"expected a language code such as en or pt-BR, found {code!r}")
        return code

    @model_validator(mode="after")
    def _sides_match(self, info: ValidationInfo) -> Self:
        for source, target in (("source", "target"), ("valid_source", "valid_target")):
            counts = len(getattr(self, source)), len(getattr(self, target))
            if counts[0] != counts[1]:
                raise ValueError(
                    f"{called(f'data.{source}', info)} names {counts[0]} files but "
                    f"{called(f'data.{target}', info)} {counts[1]}; each source file needs its "
                    f"target file (--{target.replace('_', '-')})"
                )
        if len(self.fields) not in (0, 2):
            raise ValueError(
                f"{called('data.fields', info)} names two fields, of source and target; found "
                f"{self.fields}"
            )
        if self.fields and self.fields[0] == self.fields[1]:
            raise ValueError(
                f"{called('data.fields', info)} names {self.fields[0]!r} twice; expected the field "
                "of the source and that of the target"
            )
        corpora = len(self.source) + len(self.pairs)
        if self.weights and len(self.weights) != corpora:
            raise ValueError(
                f"data.weights has {len(self.weights)} numbers for {corpora} corpora; give one "
                "for each file of source, then one for each of pairs"
            )
        for key in ("pairs", "valid_pairs"):
            for name in getattr(self, key):
                if is_jsonl(Path(name)) and not self.fields:
                    raise ValueError(
                        f"{called(f'data.{key}', info)}: {name} is JSON Lines: say which two "
                        "fields are source and target (--fields, or fields in [data]), such as "
                        "en,de"
                    )
        return self


@dataclass(frozen=True)
class Part:
    """A corpus: two files that belong together line by line, or one with both sides."""

    files: tuple[str, ...]
    fields: Sequence[str]
    """For a file with both sides: which fields they are."""

    @cached_property
    def layout(self) -> Layout:
        """The layout of the cells in a file with both sides; reading it reads the whole file."""
        path = Path(self.files[0])
        return Layout() if self._is_lines else layout_of(path, self._lines)

    def line(self, row: int) -> int:
        """Return the line on which pair `row` (from 0) begins."""
        header = not self._is_lines and has_header(Path(self.files[0]), self.fields)
        return self.layout.line(row + header)

    def notes(self) -> list[str]:
        """Return lines that say how the file is read, and warn of a first line that is no pair."""
        if self._is_lines:
            return []
        path = Path(self.files[0])
        return [
            *self.layout.notes,
            *header_warning(path, self._lines(), self.fields, self.layout),
        ]

    def chunks(self) -> Iterator[Sides]:
        """Its pairs, at most `CHUNK` at a time; raises `DataError` for what cannot be read."""
        paths = [Path(name) for name in self.files]
        if len(paths) == 2:
            yield from _aligned_chunks(paths[0], paths[1])
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
        """The lines of the file with both sides."""
        return iter_lines(Path(self.files[0]))

    @property
    def _is_lines(self) -> bool:
        """True if every line is a pair: two files, or JSON Lines."""
        return len(self.files) == 2 or is_jsonl(Path(self.files[0]))


@dataclass(frozen=True)
class Corpora:
    """The pairs of files, which stay there: what is asked for is read anew."""

    parts: Sequence[Part]
    counts: Sequence[int]
    """The number of pairs of each part."""

    @cached_property
    def starts(self) -> np.ndarray:
        """The row of the first pair of each part, and how many there are in all."""
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def chunks(self) -> Iterator[Sides]:
        """All sources and targets, at most `CHUNK` of each at a time."""
        for part in self.parts:
            yield from part.chunks()

    def origin(self, row: int) -> Origin:
        """Return the file and line of pair `row`."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        part = self.parts[number]
        return Origin(part.files[0], part.line(row - int(self.starts[number])))

    def read(self) -> ParallelText:
        """All pairs, in memory."""
        source: list[str] = []
        target: list[str] = []
        for left, right in self.chunks():
            source += left
            target += right
        return ParallelText(source, target, [self.origin(row) for row in range(len(self))])


def training_parts(config: DataConfig) -> list[Part]:
    """The corpora of training: those of `source` and `target` first, then those of `pairs`.

    Raises `DataError` where there are none, and for a pipe: text is read several times.
    """
    if not config.source and not config.pairs:
        raise DataError(
            "no training data: give two line-aligned files (--source and --target) or files with "
            "both sides (--pairs), or these keys in [data]"
        )
    return _parts(config.source, config.target, config.pairs, config.fields)


def survey(parts: Sequence[Part]) -> Corpora:
    """Read parts through once, count their pairs, and hold nothing of them.

    Raises `DataError` for whatever cannot be read as it is, and where no pair has two sides.
    """
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
        # The files of all sources first, as in the recipe.
        files = [name for side in (0, 1) for part in parts for name in part.files[side : side + 1]]
        raise DataError(f"{', '.join(files)}: no pair has text on both sides")
    return Corpora(parts, counts)


def read_pairs(config: DataConfig) -> ParallelText:
    """The training pairs, all in memory; raises what `training_parts` and `survey` raise."""
    return survey(training_parts(config)).read()


def read_valid_pairs(
    config: DataConfig, say: Callable[[str], None] = lambda line: None
) -> ParallelText | None:
    """The validation pairs, or None where no file for them is given.

    `say` gets the lines that say how the files are read.
    """
    if not config.valid_source and not config.valid_pairs:
        return None
    parts = _parts(config.valid_source, config.valid_target, config.valid_pairs, config.fields)
    for part in parts:
        for note in part.notes():
            say(note)
    return survey(parts).read()


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two files that belong together line by line.

    Raises `DataError` where one has more lines than the other, or where both are empty.
    """
    sides: Sides = [], []
    for left, right in _aligned_chunks(source, target):
        sides[0].extend(left)
        sides[1].extend(right)
    return sides


def _parts(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[str], fields: Sequence[str]
) -> list[Part]:
    """`source` and `target` are as long as each other; raises `DataError` for a pipe or device."""
    for name in chain(source, target, pairs):
        check_regular(Path(name))
    aligned = [Part(names, []) for names in zip(source, target, strict=True)]
    return [*aligned, *(Part((name,), fields) for name in pairs)]


def _aligned_chunks(source: Path, target: Path) -> Iterator[Sides]:
    """Yield the lines that `read_aligned` reads, at most `CHUNK` of each side at a time."""
    left, right = iter_lines(source), iter_lines(target)
    before = 0
    while True:
        chunk = list(islice(left, CHUNK)), list(islice(right, CHUNK))
        if len(chunk[0]) != len(chunk[1]):
            counts = [before + len(chunk[0]), before + len(chunk[1])]
            counts[0] += sum(1 for _ in left)
            counts[1] += sum(1 for _ in right)
            raise DataError(
                f"{source} has {counts[0]} lines but {target} has {counts[1]}; "
                "line n of one must be the translation of line n of the other"
            )
        if not chunk[0]:
            break
        yield chunk
        before += len(chunk[0])
    if not before:
        raise DataError(f"{source} and {target} are empty; expected a sentence on every line")
