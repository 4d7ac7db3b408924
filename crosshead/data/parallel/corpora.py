"""Parallel text from files: aligned pairs of files, TSV, CSV and JSONL, plain or gzipped.

A file of n lines gives n pairs, except for table cells with line breaks. `crosshead.system.lines`
defines where a line ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crosshead.caller import option
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
from crosshead.data.section import DataSection, Names
from crosshead.errors import DataError
from crosshead.system.lines import check_regular, iter_lines
from crosshead.system.progress import counted

_Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
PAIRED = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
"""The keys that name files of pairs."""


class DataConfig(DataSection):
    """Files of text, and filters of the training pairs: the section `[data]` of a recipe."""

    file_keys: ClassVar[tuple[str, ...]] = (*PAIRED, "text", "valid_text")

    source: Names = Field(default_factory=list)
    """Files of source sentences, one per line. A single name needs no brackets."""

    target: Names = Field(default_factory=list)
    """Files of the translations, one for each file of `source`, aligned line by line."""

    pairs: Names = Field(default_factory=list)
    """Files with both sides: JSON Lines if the name ends in `.jsonl`, CSV if it ends in `.csv`, and
    otherwise TSV. Quotes around cells, as spreadsheets write them, are removed."""

    fields: Names = Field(default_factory=list)
    """The source field and the target field of `pairs`: names (in TSV and CSV, names in the first
    line; in JSON Lines, `translation.en` is `en` inside `translation`) or, in TSV and CSV, column
    numbers from 1. A file of two columns needs none."""

    valid_source: Names = Field(default_factory=list)
    """Files of source sentences for validation, in the form of `source`."""

    valid_target: Names = Field(default_factory=list)
    """Files of translations for validation, in the form of `target`."""

    valid_pairs: Names = Field(default_factory=list)
    """Files of pairs for validation, in the form of `pairs`."""

    text: Names = Field(default_factory=list)
    """Files of monolingual text, for language models. All files together are one text."""

    valid_text: Names = Field(default_factory=list)
    """Files of monolingual text for validation, in the form of `text`."""

    valid_share: float = Field(default=0.1, gt=0, lt=1)
    """The share of the text, at its end, that is held out of training if `valid_text` is not
    set."""

    context: int = Field(default=256, gt=0, le=2**24)
    """The number of tokens in a window of text: what a language model sees at once in training."""

    valid_size: int = Field(default=500, gt=0, le=MOST)
    """The number of pairs, between one and a tenth of all, that are held out of training if there
    are no validation files."""

    max_length: int = Field(default=256, gt=0, le=2**24)
    """A pair with more tokens than this on either side is left out of training."""

    max_ratio: float = Field(default=9.0, ge=1, le=1e6)
    """A pair is left out of training when its longer side has more than `max_ratio` times the
    tokens of its shorter side, plus 5 tokens."""

    drop_duplicates: bool = False
    """True leaves out pairs of training that repeat an earlier pair, ignoring surrounding white
    space."""

    weights: list[_Weight] = Field(default_factory=list)
    """The number of passes through each corpus in an epoch (each file of `source`, then each of
    `pairs`): 2 uses each pair twice, 0.5 half of the pairs, drawn anew in each epoch. An empty
    list means one pass through each."""

    share: float = Field(default=1.0, gt=0, le=1)
    """The share of the training pairs that is used. The seed draws them, and a smaller share is
    part of a larger one. The validation set is the same for each share. `crosshead train --curve`
    sets it."""

    fold: list[int] = Field(default_factory=list)
    """The number of a fold and of all folds, such as `[2, 5]`: the second of five equal parts,
    which the seed draws, is held out for validation. `crosshead train --folds` sets it."""

    source_language: str | None = None
    """The language code of the sources, such as `en`, for the bundle and its card. Unset: the
    language in the file suffixes or in the names of `fields`, if both sides have one."""

    target_language: str | None = None
    """The language code of the targets, as for `source_language`."""

    @field_validator("source_language", "target_language")
    @classmethod
    def _is_code(cls, code: str | None) -> str | None:
        if code is not None and not looks_like_code(code):
            raise ValueError(f"expected a language code such as en or pt-BR, found {code!r}")
        return code

    @model_validator(mode="after")
    def _sides_match(self, info: ValidationInfo) -> Self:
        for sides in (("source", "target"), ("valid_source", "valid_target")):
            self._check_sides(sides, info)
        if len(self.fields) not in (0, 2):
            raise ValueError(
                f"{called('data.fields', info)} needs two fields, the source and the target; found "
                f"{self.fields}"
            )
        if self.fields and self.fields[0] == self.fields[1]:
            raise ValueError(
                f"{called('data.fields', info)} names {self.fields[0]!r} twice; expected the field "
                "of the source and the field of the target"
            )
        corpora = len(self.source) + len(self.pairs)
        if self.weights and len(self.weights) != corpora:
            raise ValueError(
                f"data.weights has {len(self.weights)} numbers for {corpora} corpora; give one "
                "for each source file, then one for each file of pairs"
            )
        for key in ("pairs", "valid_pairs"):
            for name in getattr(self, key):
                if is_jsonl(Path(name)) and not self.fields:
                    raise ValueError(
                        f"{called(f'data.{key}', info)}: {name} is JSON Lines; name the fields "
                        f"of source and target ({option('fields')}, or fields in [data]), such "
                        "as en,de or translation.en,translation.de"
                    )
        return self

    @model_validator(mode="after")
    def _fold_exists(self, info: ValidationInfo) -> Self:
        if not self.fold:
            return self
        if len(self.fold) != 2 or not 1 <= self.fold[0] <= self.fold[1] or self.fold[1] < 2:
            raise ValueError(
                f"data.fold: expected the number of a fold and of all folds, such as [2, 5], found "
                f"{self.fold}"
            )
        if self.valid_source or self.valid_pairs:
            raise ValueError(
                "data.fold holds out its own validation set; leave out the fold, or the validation "
                f"files ({called('data.valid_source', info)}, {called('data.valid_pairs', info)})"
            )
        return self

    def _check_sides(self, sides: tuple[str, str], info: ValidationInfo) -> None:
        """Raise `ValueError` if the keys `sides` name different numbers of files."""
        files = [getattr(self, key) for key in sides]
        source, target = (called(f"data.{key}", info) for key in sides)
        if all(files) and len(files[0]) != len(files[1]):
            raise ValueError(
                f"{source} names {counted(len(files[0]), 'file')} but {target} {len(files[1])}; "
                "each source file needs a target file"
            )
        for given, other, name, missing, wanted in (
            (*files, source, sides[1], "translations"),
            (*files[::-1], target, sides[0], "sources"),
        ):
            if given and not other:
                # Name both sides in one form: as flags, or as keys.
                flag = f"--{missing.replace('_', '-')}"
                lacking = flag if name.startswith("-") else f"data.{missing}"
                one = len(given) == 1
                raise ValueError(
                    f"{name} {', '.join(given)} {'has' if one else 'have'} no {lacking}; "
                    + (
                        f"give the file of its {wanted}"
                        if one
                        else f"give a file of {wanted} for each"
                    )
                )


@dataclass(frozen=True)
class Part:
    """A corpus: two aligned files, or one file with both sides."""

    files: tuple[str, ...]
    fields: Sequence[str]
    """The source field and the target field of a file with both sides."""

    @cached_property
    def layout(self) -> Layout:
        """The layout of the cells in a file with both sides. Its first use reads the whole file."""
        path = Path(self.files[0])
        return Layout() if self._is_lines else layout_of(path, self._lines)

    def line(self, row: int) -> int:
        """Return the line on which pair `row` (from 0) begins."""
        header = not self._is_lines and has_header(Path(self.files[0]), self.fields)
        return self.layout.line(row + header)

    def notes(self) -> list[str]:
        """Return messages about how the file is read, and a warning if it may have a header."""
        if self._is_lines:
            return []
        path = Path(self.files[0])
        return [
            *self.layout.notes,
            *header_warning(path, self._lines(), self.fields, self.layout),
        ]

    def chunks(self) -> Iterator[Sides]:
        """Yield the pairs, at most `CHUNK` at a time.

        Raises:
            DataError: If the files cannot be read.
        """
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
        """Yield the lines of the file with both sides."""
        return iter_lines(Path(self.files[0]))

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
        return Origin(part.files[0], part.line(row - int(self.starts[number])))

    def read(self) -> ParallelText:
        """Return all pairs, held in memory."""
        source: list[str] = []
        target: list[str] = []
        for left, right in self.chunks():
            source += left
            target += right
        return ParallelText(source, target, [self.origin(row) for row in range(len(self))])


def training_parts(config: DataConfig) -> list[Part]:
    """Return the training corpora: first `source` and `target`, then `pairs`.

    Raises:
        DataError: If there is none, or a file is a pipe, because text is read several times.
    """
    if not config.source and not config.pairs:
        raise DataError(
            f"no training data: give two line-aligned files ({option('source')} and "
            f"{option('target')}) or files with both sides ({option('pairs')}), or their keys in "
            "[data]"
        )
    return _parts(config.source, config.target, config.pairs, config.fields)


def survey(parts: Sequence[Part]) -> Corpora:
    """Read the parts once and count their pairs, without holding them in memory.

    Raises:
        DataError: If a file cannot be read, or no pair has text on both sides.
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
        # Source files first, as in the recipe.
        files = [name for side in (0, 1) for part in parts for name in part.files[side : side + 1]]
        raise DataError(f"{', '.join(files)}: no pair has text on both sides")
    return Corpora(parts, counts)


def read_pairs(config: DataConfig) -> ParallelText:
    """Return the training pairs, held in memory.

    Raises:
        DataError: As `training_parts` and `survey` do.
    """
    return survey(training_parts(config)).read()


def read_valid_pairs(
    config: DataConfig, say: Callable[[str], None] = lambda line: None
) -> ParallelText | None:
    """Return the validation pairs, or None if there are no files for them.

    Args:
        config: The files.
        say: A callback that gets messages about how the files are read.
    """
    if not config.valid_source and not config.valid_pairs:
        return None
    parts = _parts(config.valid_source, config.valid_target, config.valid_pairs, config.fields)
    for part in parts:
        for note in part.notes():
            say(note)
    return survey(parts).read()


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Return the lines of two aligned files.

    Args:
        source: The file of the sources.
        target: The file of the targets.

    Raises:
        DataError: If the files have different numbers of lines, or both are empty.
    """
    sides: Sides = [], []
    for left, right in _aligned_chunks(source, target):
        sides[0].extend(left)
        sides[1].extend(right)
    return sides


def _parts(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[str], fields: Sequence[str]
) -> list[Part]:
    """Return the corpora of aligned `source` and `target` files and of `pairs`.

    Raises:
        DataError: If a file is a pipe or a device.
    """
    for name in chain(source, target, pairs):
        check_regular(Path(name))
    aligned = [Part(names, []) for names in zip(source, target, strict=True)]
    return [*aligned, *(Part((name,), fields) for name in pairs)]


def _aligned_chunks(source: Path, target: Path) -> Iterator[Sides]:
    """Yield the lines of two aligned files, at most `CHUNK` of each at a time."""
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
