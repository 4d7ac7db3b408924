"""Parallel text from files: line-aligned pairs of files, TSV and JSONL, plain or gzipped.

Only a line feed ends a line, and one carriage return before it is removed: form feeds, NUL,
U+0085 and U+2028 stay inside their line, so that a file of n lines always gives n pairs. A byte
order mark at the beginning of a file is removed. Nothing else is changed, dropped or repaired.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from crosshead.config import Config
from crosshead.errors import DataError, why_unreadable


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_names(names: list[str]) -> list[str]:
    for name in names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            # The recipe and the model card, which name it, are UTF-8.
            raise ValueError(f"{name!a} is not UTF-8: give it another name")
    return names


_Names = Annotated[list[str], BeforeValidator(_listed), AfterValidator(_check_names)]
_FILES = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
_LANGUAGE = "^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*$"


class DataConfig(Config):
    """Which text is trained on: the section `[data]` of a recipe."""

    source: _Names = Field(default_factory=list)
    """Files of source sentences, one a line; a single name may stand without brackets."""

    target: _Names = Field(default_factory=list)
    """Files of their translations, one for each file of `source`, line by line."""

    pairs: _Names = Field(default_factory=list)
    """Files with both sides: TSV, or JSON Lines where the name ends in `.jsonl`."""

    fields: _Names = Field(default_factory=list)
    """Which two fields of `pairs` are source and target: names (in a TSV, those of its first
    line) or, in a TSV, numbers of columns from 1. A TSV of two columns needs none."""

    valid_source: _Names = Field(default_factory=list)
    """As `source`, for validation."""

    valid_target: _Names = Field(default_factory=list)
    """As `target`, for validation."""

    valid_pairs: _Names = Field(default_factory=list)
    """As `pairs`, for validation."""

    valid_size: int = Field(default=500, gt=0)
    """Without validation files so many pairs, one to a tenth of all, are held out of training."""

    max_length: int = Field(default=256, gt=0)
    """A pair with more tokens than this on either side is left out of training."""

    max_ratio: float = Field(default=9.0, ge=1)
    """A pair is left out of training when one side has more than this many times the tokens of
    the other, and five more."""

    drop_duplicates: bool = False
    """Leave pairs out of training that repeat an earlier one, but for white space around it."""

    source_language: str | None = Field(default=None, pattern=_LANGUAGE)
    target_language: str | None = Field(default=None, pattern=_LANGUAGE)
    """Language codes, such as `en`, for the bundle and its card."""

    def files(self) -> list[str]:
        """All files that are read, for training and for validation."""
        return [name for key in _FILES for name in getattr(self, key)]

    def renamed(self, names: Sequence[str]) -> Self:
        """The same with other names for all its `files`, in the same order."""
        rest = iter(names)
        return self.model_copy(
            update={key: [next(rest) for _ in getattr(self, key)] for key in _FILES}
        )

    @model_validator(mode="after")
    def _sides_match(self) -> Self:
        _require_as_many("source", self.source, "target", self.target)
        _require_as_many("valid_source", self.valid_source, "valid_target", self.valid_target)
        if len(self.fields) not in (0, 2):
            raise ValueError(
                f"fields names the source's and the target's field, found {self.fields}"
            )
        for name in [*self.pairs, *self.valid_pairs]:
            if _is_jsonl(Path(name)) and not self.fields:
                raise ValueError(f"{name} is JSON Lines: name two fields, as fields = ['en', 'de']")
        return self


class Origin(NamedTuple):
    """Where a pair was read: the file of its source side and the line, counted from 1."""

    file: str
    line: int


@dataclass(frozen=True)
class ParallelText:
    """Pairs of texts in the order they were read, and where each was read."""

    source: list[str]
    target: list[str]
    files: list[str]
    """The names of the files that `file_numbers` counts."""

    file_numbers: np.ndarray
    line_numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    def origin(self, row: int) -> Origin:
        """Where pair `row` was read."""
        return Origin(self.files[self.file_numbers[row]], int(self.line_numbers[row]))

    def select(self, rows: Sequence[int] | np.ndarray) -> "ParallelText":
        """The pairs `rows`, in that order."""
        indices = np.asarray(rows, dtype=np.int64)
        return ParallelText(
            [self.source[row] for row in indices],
            [self.target[row] for row in indices],
            self.files,
            self.file_numbers[indices],
            self.line_numbers[indices],
        )


@dataclass(frozen=True)
class HeldOut:
    """A corpus split into what is trained on and what is validated on."""

    train: ParallelText
    valid: ParallelText
    repeats: list[Origin]
    """Where the pairs stood that left training because they repeat a held-out pair."""


def read_pairs(config: DataConfig) -> ParallelText:
    """The training pairs: those of `source` and `target` first, then those of `pairs`.

    Raises `DataError` where there are none, and for whatever cannot be read as it is.
    """
    if not config.source and not config.pairs:
        raise DataError(
            "no training data: give two line-aligned files (data.source and data.target) "
            "or files with both sides (data.pairs)"
        )
    return _read_all(config.source, config.target, config.pairs, config.fields)


def read_valid_pairs(config: DataConfig) -> ParallelText | None:
    """The validation pairs, or None where no file for them is given."""
    if not config.valid_source and not config.valid_pairs:
        return None
    return _read_all(config.valid_source, config.valid_target, config.valid_pairs, config.fields)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file (`.gz`: gunzipped), without their ends; an empty file has none.

    Raises `DataError` for a file that is missing, unreadable, damaged or not UTF-8.
    """
    return split_lines(_read_bytes(path), str(path))


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two files that belong together line by line.

    Raises `DataError` where one has more lines than the other, or where both are empty.
    """
    source_lines, target_lines = read_lines(source), read_lines(target)
    if len(source_lines) != len(target_lines):
        raise DataError(
            f"{source} has {len(source_lines)} lines but {target} has {len(target_lines)}; "
            "line n of one must be the translation of line n of the other"
        )
    if not source_lines:
        raise DataError(f"{source} and {target} are empty; expected a sentence on every line")
    return source_lines, target_lines


def split_lines(raw: bytes, name: str, before: int = 0) -> list[str]:
    r"""The lines of a file's bytes; `name` is what errors call the file.

    `\n` ends a line, and one `\r` before it goes with it; the last line needs no end. A byte order
    mark in front is removed. `before` is how many lines of the file stand before these. Raises
    `DataError` with `name:line:byte` where it is not UTF-8.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before + raw.count(b"\n", 0, error.start) + 1
        byte = error.start - raw.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{name}:{line}:{byte}: not UTF-8 (byte 0x{raw[error.start]:02X}); "
            "convert the file to UTF-8"
        ) from None
    if not before:
        text = text.removeprefix("\ufeff")
    if not text:
        return []
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def hold_out(text: ParallelText, config: DataConfig, seed: int) -> HeldOut:
    """Take about `valid_size` pairs, from one to a tenth of all, out of the text for validation.

    The text is cut into as many spans of equal length and one pair is drawn from each, so that
    they are spread over all corpora. Pairs that training would leave out are not drawn (an empty
    side, or too many characters), nor the same pair twice, and what repeats a drawn pair, but for
    white space around it, leaves training too. A function of text, configuration and seed alone.

    Raises `DataError` where too little remains on either side.
    """
    size = min(config.valid_size, max(1, len(text) // 10))
    rng = np.random.default_rng(seed)
    held: dict[tuple[str, str], int] = {}
    for span in np.array_split(np.arange(len(text)), size) if len(text) else []:
        row = int(rng.choice(span))
        pair = text.source[row].strip(), text.target[row].strip()
        if all(side and len(side) <= 4 * config.max_length for side in pair):
            held.setdefault(pair, row)
    valid = sorted(held.values())
    train: list[int] = []
    repeats: list[Origin] = []
    for row, sides in enumerate(zip(text.source, text.target, strict=True)):
        pair = sides[0].strip(), sides[1].strip()
        if pair not in held:
            train.append(row)
        elif row != held[pair]:
            repeats.append(text.origin(row))
    if not valid or not train:
        raise DataError(
            f"the training pairs ({len(text)}) are too few, or too much alike, to hold some out "
            "for validation; give validation files (data.valid_source and data.valid_target)"
        )
    return HeldOut(text.select(train), text.select(valid), repeats)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file; raises `DataError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _read_all(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[str], fields: Sequence[str]
) -> ParallelText:
    """All corpora one after the other; `source` and `target` are as long as each other."""
    names: list[str] = []
    sources: list[str] = []
    targets: list[str] = []
    line_numbers: list[np.ndarray] = []
    for source_name, target_name in zip(source, target, strict=True):
        left, right = read_aligned(Path(source_name), Path(target_name))
        names.append(source_name)
        line_numbers.append(np.arange(1, len(left) + 1))
        sources += left
        targets += right
    for name in pairs:
        left, right, first_line = _read_pairs_file(Path(name), fields)
        names.append(name)
        line_numbers.append(np.arange(first_line, first_line + len(left)))
        sources += left
        targets += right
    both = zip(sources, targets, strict=True)
    if not any(left.strip() and right.strip() for left, right in both):
        raise DataError(f"{', '.join([*source, *target, *pairs])}: no pair has text on both sides")
    counts = [len(numbers) for numbers in line_numbers]
    file_numbers = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    return ParallelText(sources, targets, names, file_numbers, np.concatenate(line_numbers))


def _read_pairs_file(path: Path, fields: Sequence[str]) -> tuple[list[str], list[str], int]:
    """Sources, targets, and the number of the line where they begin."""
    lines = read_lines(path)
    first = 1
    if _is_jsonl(path):
        rows = [_jsonl_pair(f"{path}:{n}", line, fields) for n, line in enumerate(lines, 1)]
    elif not fields:
        rows = [_two_columns(f"{path}:{n}", line) for n, line in enumerate(lines, 1)]
    else:
        columns, first = _chosen_columns(path, lines, fields)
        body = enumerate(lines[first - 1 :], first)
        rows = [_columns_of(f"{path}:{n}", line, columns) for n, line in body]
    if not rows:
        raise DataError(f"{path}: empty; expected a pair on every line")
    return [row[0] for row in rows], [row[1] for row in rows], first


def _jsonl_pair(where: str, line: str, fields: Sequence[str]) -> tuple[str, str]:
    """The two fields of a line of JSON."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}); expected an object on every line") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object with {_names(fields)}, found {line[:40]!r}")
    return _jsonl_text(where, row, fields[0]), _jsonl_text(where, row, fields[1])


def _jsonl_text(where: str, row: dict[str, Any], field: str) -> str:
    if field not in row:
        raise DataError(f"{where}: no field {field!r}; it has {_names(list(row))}")
    text = row[field]
    if not isinstance(text, str):
        raise DataError(f"{where}: field {field!r} is not a string but {json.dumps(text)[:40]}")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f"{where}: field {field!r} holds a lone surrogate, which is not text")
    return text


def _two_columns(where: str, line: str) -> tuple[str, str]:
    """The two columns of a line of TSV that has no others."""
    cells = line.split("\t")
    if len(cells) != 2:
        advice = "" if len(cells) < 2 else "; say which two, as data.fields = ['1', '2']"
        raise DataError(f"{where}: expected 2 columns between tabs, found {len(cells)}{advice}")
    return cells[0], cells[1]


def _chosen_columns(
    path: Path, lines: Sequence[str], fields: Sequence[str]
) -> tuple[tuple[int, int], int]:
    """The columns that `fields` names, from 0, and the number of the first line with text."""
    if all(field.isdecimal() and int(field) > 0 for field in fields):
        return (int(fields[0]) - 1, int(fields[1]) - 1), 1
    header = lines[0].split("\t") if lines else []
    for field in fields:
        if field not in header:
            raise DataError(
                f"{path}:1: no column {field!r} in the first line, which has {_names(header)}; "
                "name two of these, or give numbers (1,2) where the first line names no columns"
            )
    return (header.index(fields[0]), header.index(fields[1])), 2


def _columns_of(where: str, line: str, columns: tuple[int, int]) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) <= max(columns):
        raise DataError(
            f"{where}: expected at least {max(columns) + 1} columns between tabs, "
            f"found {len(cells)}"
        )
    return cells[columns[0]], cells[columns[1]]


def _names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:10]) or "none"


def _is_jsonl(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".jsonl")


def _read_bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); compress it again") from None


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: {why_unreadable(error)}")


def _require_as_many(source: str, sources: list[str], target: str, targets: list[str]) -> None:
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} names {len(sources)} files but {target} {len(targets)}; "
            "each source file needs its target file"
        )
