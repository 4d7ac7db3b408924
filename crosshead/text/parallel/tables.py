"""Read pairs from files of cells (TSV, CSV) and from JSON Lines."""

import json
import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from crosshead.caller import joined_names, option
from crosshead.errors import DataError
from crosshead.system.kinds import kind_of
from crosshead.system.progress import counted
from crosshead.text.parallel.delimited import SAMPLE, Layout, is_csv, looks_like_header, place
from crosshead.text.parallel.pairs import Pair

_MOST_DIGITS = 6
"""The largest number of digits in a column number. A longer number is a name."""


def is_jsonl(path: Path) -> bool:
    """Return whether a file is JSON Lines, judged by its name."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def file_kind(path: Path) -> str:
    """Return the format of a file with both sides, judged by its name: `jsonl`, `csv` or `tsv`."""
    return "jsonl" if is_jsonl(path) else "csv" if is_csv(path) else "tsv"


def is_header(first: Sequence[str], fields: Sequence[str]) -> bool:
    """Return whether the first record of a file of cells is a header.

    It is if `fields` are names. Numbers are names too, rather than numbers of columns, if the
    record has both of them as its cells. White space around a cell does not belong to its name.
    """
    return bool(fields) and (not _are_numbers(fields) or _has_names(first, fields))


def field_of(row: Mapping[Any, Any], field: str | int) -> Any:
    """Return the value of a field in a mapping.

    White space around a key counts only if another key has the same name without it.
    """
    with suppress(KeyError):
        return row[_key(row, field)]
    outer, dot, inner = str(field).partition(".")
    value = row[_key(row, outer)] if dot else None
    if isinstance(value, Mapping):
        return field_of(value, inner)
    raise KeyError(field)


def _key(row: Mapping[Any, Any], name: str | int) -> Any:
    """Return the key of a mapping that has a name, for `field_of`."""
    if name in row:
        return name
    found = [key for key in row if str(key).strip() == name]
    if len(found) > 1:
        raise DataError(
            f"the fields {_names(found)} differ in white space alone; rename all but one of them"
        )
    return found[0] if found else name


def field_names(row: Mapping[str, Any]) -> list[str]:
    """Return the names that `field_of` takes for the values of a mapping."""
    return [
        name
        for outer, value in row.items()
        for name in (
            [f"{outer}.{inner}" for inner in value] if isinstance(value, Mapping) else [str(outer)]
        )
    ]


def jsonl_pairs(path: Path, lines: Iterator[str], fields: Sequence[str]) -> Iterator[Pair]:
    """Yield the pairs in JSON Lines."""
    for number, line in enumerate(lines, 1):
        yield _jsonl_pair(fields, f"{path}:{number}", line)


def table_pairs(
    path: Path, lines: Iterator[str], fields: Sequence[str], layout: Layout
) -> Iterator[Pair]:
    """Yield the pairs in a file of cells."""
    records = enumerate(layout.records(path, lines), 1)
    first = list(islice(records, 1))
    header = first[0][1][1] if first else []
    if len(header) == 1 and header[0]:
        raise DataError(
            f"{path}:{layout.line(0)}: expected {'' if fields else '2 '}columns between "
            f"{layout.between}, found 1; {_advice_for_one_column(header[0])}"
        )
    has_header = is_header(header, fields)
    if has_header:
        columns = _named_columns(f"{path}:{layout.line(0)}", header, fields)
    else:
        columns = (int(fields[0]) - 1, int(fields[1]) - 1) if fields else (0, 1)
    # Without a header, the first row that is not empty decides the number of columns.
    width = len(header) if has_header else None
    for row, (line, cells) in records if has_header else chain(first, records):
        if _is_empty(cells):
            yield "", ""
            continue
        fault = ""
        if width is None:
            width = len(cells)
            fault = _fault_of_first_row(path, cells, columns, fields, layout)
        elif len(cells) <= max(columns):
            fault = _fault_of_a_short_row(path, cells, columns, layout)
        elif any(map(str.strip, cells[width:])) and not _may_be_longer(path, has_header, fields):
            fault = (
                f"{len(cells)} cells where the {'header' if has_header else 'first row'} has "
                f"{width}; {_advice_for_a_long_row(path, fields, layout)}"
            )
        if fault:
            raise DataError(f"{place(path, line, row)}: {fault}")
        yield cells[columns[0]], cells[columns[1]]


def header_notes(
    path: Path, lines: Iterator[str], fields: Sequence[str], layout: Layout
) -> list[str]:
    """Return a message, in a list, if the first record could be a header or a pair.

    It is a warning if the first pair looks like column names.
    """
    rows = [cells for _, cells in islice(layout.records(path, lines), SAMPLE)]
    if is_header(rows[0] if rows else [], fields):
        if not _are_numbers(fields):
            return []
        return [
            f"{path}:{layout.line(0)}: {' and '.join(map(repr, fields))} are read as column names, "
            "not as numbers of columns, because they are cells of the first line"
        ]
    columns = [int(field) - 1 for field in fields] or [0, 1]
    chosen = [[row[place] for place in columns] for row in rows if len(row) > max(columns)]
    if not chosen or not looks_like_header(chosen[0], chosen[1:]):
        return []
    if len(rows[0]) <= max(columns) or (not fields and len(rows[0]) > 2):
        return []  # reading the file raises a clearer error
    names = [cell.strip() for cell in chosen[0]]
    return [
        f"warning: {path}:{layout.line(0)}: {' and '.join(map(repr, names))} look like column "
        "names, but are read as a pair; if they are names, give "
        f"{option('fields')} {shlex.quote(joined_names(names))}"
    ]


def _jsonl_pair(fields: Sequence[str], where: str, line: str) -> tuple[str, str]:
    """Return the two fields of a line of JSON."""
    if _JSON_ARRAY.match(line):
        raise DataError(f"{where}: {_advice_for_one_column(line)}")
    try:
        row = json.loads(line, parse_int=_whole_number, object_pairs_hook=_without_repeats)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error}); expected an object on every line") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object with {_names(fields)}, found {line[:40]!r}")
    return _jsonl_text(where, row, fields[0]), _jsonl_text(where, row, fields[1])


def _without_repeats(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the keys and values of a JSON object. Python would keep the last of equal keys."""
    row = dict(items)
    if len(row) < len(items):
        names = [key for key, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the key {twice!r} stands twice in one object; rename one of them")
    return row


def _whole_number(digits: str) -> float:
    """Return a whole number of JSON. Python refuses to read thousands of digits as an `int`."""
    return int(digits) if len(digits) <= 18 else float(digits)


def _jsonl_text(where: str, row: dict[str, Any], field: str) -> str:
    try:
        text = field_of(row, field)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except KeyError:
        names = field_names(row)
        raise DataError(
            f"{where}: no field {field!r}; the fields are {_names(names)}; name two of these; "
            f"{_advice_for_absent('field', field, names)}"
        ) from None
    if not isinstance(text, str):
        raise DataError(f"{where}: field {field!r} is not a string but {json.dumps(text)[:40]}")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f"{where}: field {field!r} contains a lone surrogate, which is not text")
    return text


def _advice_for_one_column(line: str) -> str:
    """Return advice for a file whose first line has no two columns, by the format of the line."""
    if _JSON_ARRAY.match(line):
        return (
            "this looks like a JSON array: write one object on every line into a .jsonl file (jq "
            "-c '.[]' IN.json > OUT.jsonl)"
        )
    if line.lstrip().startswith("{"):
        return (
            "this looks like JSON: if there is one object on every line, let the name of the file "
            "end in .jsonl"
        )
    if kind := kind_of(line.encode()):
        return f"this looks like {kind.words}: {kind.advice}"
    if "|||" in line:
        return "this looks like source ||| target: replace each ||| by a tab"
    return (
        f"files for {option('pairs')} are TSV, CSV (names that end in .csv) and JSON Lines (names "
        f"that end in .jsonl); two aligned files are for {option('source')} and {option('target')}"
    )


_JSON_ARRAY = re.compile(r"\s*\[\s*(\{|$)")
"""The beginning of an array of objects."""


def _fault_of_first_row(
    path: Path,
    cells: Sequence[str],
    columns: tuple[int, int],
    fields: Sequence[str],
    layout: Layout,
) -> str:
    """Return the fault of the first row of a file without a header, and what to do, or ""."""
    if len(cells) <= max(columns):
        if not fields:
            return _fault_of_a_short_row(path, cells, columns, layout)
        return (
            f"no column {max(columns) + 1} in the first row, which has "
            f"{counted(len(cells), 'column')} ({_numbered(cells)}); choose two of these with "
            f"{option('fields')}"
        )
    if fields or len(cells) == 2:
        return ""
    fault = (
        f"expected 2 columns between {layout.between}, found {len(cells):,} ({_numbered(cells)}); "
        f"choose source and target with {option('fields')}: by number, or by name if the first "
        "line has names"
    )
    if not is_csv(path):
        return fault
    return f"{fault}; or put quotation marks around cells that contain {layout.between}"


def _may_be_longer(path: Path, has_header: bool, fields: Sequence[str]) -> bool:
    """Return whether a row may have more cells than the first row.

    Tabs hardly occur in text. So numbered columns of a TSV may have further ones after them.
    """
    return bool(fields) and not has_header and not is_csv(path)


def _fault_of_a_short_row(
    path: Path, cells: Sequence[str], columns: tuple[int, int], layout: Layout
) -> str:
    fault = (
        f"expected at least {max(columns) + 1} columns between {layout.between}, found "
        f"{len(cells)}; complete the line, or remove it"
    )
    if not is_csv(path):
        return fault
    return f"{fault}; put quotation marks around cells that contain line breaks"


def _advice_for_a_long_row(path: Path, fields: Sequence[str], layout: Layout) -> str:
    if is_csv(path):
        return f"put quotation marks around cells that contain {layout.between}"
    advice = "replace the tabs inside cells by spaces"
    return advice if fields else f"{advice}, or read two of the columns with {option('fields')} 1,2"


def _is_empty(cells: Sequence[str]) -> bool:
    """Return whether a record is an empty line, such as at the end of a file."""
    return len(cells) == 1 and not cells[0]


def _are_numbers(fields: Sequence[str]) -> bool:
    return all(
        field.isdecimal() and len(field) <= _MOST_DIGITS and int(field) > 0 for field in fields
    )


def _has_names(first: Sequence[str], fields: Sequence[str]) -> bool:
    """Return whether each field is one cell of the first record."""
    names = _bare(first)
    return all(names.count(field) == 1 for field in fields)


def _bare(header: Sequence[str]) -> list[str]:
    """Return the names of columns in a header, without the white space around its cells."""
    return [cell.strip() for cell in header]


def _named_columns(where: str, header: Sequence[str], fields: Sequence[str]) -> tuple[int, int]:
    """Return the column numbers, from 0, of the two fields in the header."""
    names = _bare(header)
    for field in fields:
        if field not in names:
            raise DataError(
                f"{where}: no column {field!r} in the first line, which has {_names(names)}; "
                "name two of these, or give two numbers of columns if the first line is no header; "
                f"{_advice_for_absent('column', field, names)}"
            )
        if names.count(field) > 1:
            raise DataError(
                f"{where}: the first line names column {field!r} {names.count(field)} times; "
                "rename all but one of them in the file"
            )
    return names.index(fields[0]), names.index(fields[1])


def _advice_for_absent(kind: str, name: str, names: Sequence[str]) -> str:
    """Return advice for a file that has no column or field of a name.

    If exactly one of its `names` differs in case or accents alone, the name may be misspelled. Else
    another file may have it.
    """
    alike = [each for each in map(str.strip, names) if _letters(each) == _letters(name)]
    if len(alike) == 1:
        return f"did you mean {alike[0]!r}?"
    return (
        f"if another file has a {kind} {name!r}, rename the {kind}s of this file, because all "
        "files of pairs are read by the same names"
    )


def _letters(name: str) -> str:
    """Return a name without the case and the accents of its letters."""
    decomposed = unicodedata.normalize("NFD", name.casefold())
    return "".join(each for each in decomposed if not unicodedata.combining(each))


def _names(names: Sequence[str]) -> str:
    return ", ".join(_shown(names)) or "none"


def _numbered(cells: Sequence[str]) -> str:
    return ", ".join(f"{number}: {cell}" for number, cell in enumerate(_shown(cells), 1))


def _shown(names: Sequence[str]) -> list[str]:
    shown = [repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:10]]
    return shown + ["…"] * (len(names) > 10)
