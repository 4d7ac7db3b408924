"""Pairs from lines of TSV and JSON Lines."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.errors import DataError

Pair = tuple[str, str]
"""Source and target."""


def is_jsonl(path: Path) -> bool:
    """Whether a file is JSON Lines, by its name."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def has_header(path: Path, fields: Sequence[str]) -> bool:
    """Whether the first line of a file names columns: that of a TSV with fields by name."""
    return not is_jsonl(path) and bool(fields) and not _are_numbers(fields)


def table_pairs(path: Path, lines: Iterator[str], fields: Sequence[str]) -> Iterator[Pair]:
    """The pairs in the lines of a file, which are read as they are asked for.

    `fields` are the two of source and target, as in `DataConfig`. Raises `DataError` by file and
    line for one without a pair.
    """
    parse: Callable[[str, str], Pair]
    number = 1
    if is_jsonl(path):
        parse = partial(_jsonl_pair, fields)
    elif not fields:
        parse = _two_columns
    elif has_header(path, fields):
        columns, number = _named_columns(path, next(lines, None), fields), 2
        parse = partial(_columns_of, columns)
    else:
        numbered = int(fields[0]) - 1, int(fields[1]) - 1
        parse = partial(_columns_of, numbered)
    for at, line in enumerate(lines, number):
        yield parse(f"{path}:{at}", line)


def _jsonl_pair(fields: Sequence[str], where: str, line: str) -> tuple[str, str]:
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


def _are_numbers(fields: Sequence[str]) -> bool:
    return all(field.isdecimal() and int(field) > 0 for field in fields)


def _named_columns(path: Path, first: str | None, fields: Sequence[str]) -> tuple[int, int]:
    """The columns that `fields` names in the first line, from 0."""
    header = [] if first is None else first.split("\t")
    for field in fields:
        if field not in header:
            raise DataError(
                f"{path}:1: no column {field!r} in the first line, which has {_names(header)}; "
                "name two of these, or give numbers (1,2) where the first line names no columns"
            )
    return header.index(fields[0]), header.index(fields[1])


def _columns_of(columns: tuple[int, int], where: str, line: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) <= max(columns):
        raise DataError(
            f"{where}: expected at least {max(columns) + 1} columns between tabs, "
            f"found {len(cells)}"
        )
    return cells[columns[0]], cells[columns[1]]


def _names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:10]) or "none"
