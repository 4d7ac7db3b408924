"""Checks of files of pairs, and the files that a check writes: suspect pairs and cleaned text."""

import csv
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path

from crosshead.addons.checks.check import DataReport, check_kinds, check_pairs
from crosshead.addons.checks.suspects import KINDS
from crosshead.caller import option
from crosshead.errors import DataError
from crosshead.system.files import atomic_write_all, is_unfinished, make_directory, real_path
from crosshead.system.lines import iter_lines
from crosshead.text.parallel.corpora import (
    Corpora,
    Part,
    UnequalLinesError,
    read_valid_pairs,
    survey,
    training_parts,
)
from crosshead.text.parallel.pairs import CHUNK, Origin, Pair
from crosshead.text.parallel.section import DataConfig
from crosshead.text.parallel.spooled import spooled_sides
from crosshead.text.parallel.tables import has_header

SUSPECTS = "suspects.tsv"
"""The file of all suspect pairs."""

_COLUMNS = ("file", "line", "kind", "score", "reason", "source", "target")
_ENDINGS = (".tsv", ".csv", ".jsonl", ".txt")
_GZIP = 31
"""The number of zlib's format that is gzip's, without a time."""

_BREAK = re.compile(r"[\t\n\r]")
"""Characters that end a cell of a file with tabs."""


def check_files(
    config: DataConfig,
    skip: Collection[str],
    say: Callable[[str], None],
    advance: Callable[[float, str], None] = lambda share, step: None,
) -> tuple[DataReport, Corpora]:
    """Look for suspect pairs in the training files of a configuration."""
    check_kinds(skip)
    try:
        valid = read_valid_pairs(config, say)
        parts = training_parts(config)
        for part in parts:
            for note in part.notes():
                say(note)
        text = survey(parts)
    except UnequalLinesError as error:
        raise DataError(f"{error.fault}{_first_shift(error, advance)}") from None
    sides = spooled_sides(text.chunks())
    return check_pairs(sides, text.origin, [valid] if valid else [], skip, advance), text


def _first_shift(error: UnequalLinesError, advance: Callable[[float, str], None]) -> str:
    """Return a clause with the place from which two files are shifted, or why there is none."""
    source, target = (islice(iter_lines(file), error.shared) for file in error.files)
    sides, others = spooled_sides([(source, target)]), set(KINDS) - {"misaligned"}
    name = str(error.files[0])
    report = check_pairs(sides, lambda row: Origin(name, row + 1), (), others, advance)
    for first, _ in report.stretches():
        return f"; from about line {first.row + 1} on {first.reason}"
    unknown = "no shift was found, so the surplus is probably at the end"
    return f"; {'; '.join(report.notes) or unknown}"


def suspect_lines(report: DataReport) -> Iterator[str]:
    """Yield the lines of a TSV file with a header: one line for each reason of a suspect pair."""
    yield "\t".join(_COLUMNS)
    for suspect in report.suspects:
        file, line = report.origin(suspect.row)
        texts = [side[suspect.row] for side in report.sides]
        cells = (file, line, suspect.kind, f"{suspect.score:.3f}", suspect.reason, *texts)
        written = io.StringIO()
        row = [_BREAK.sub(" ", str(cell)) for cell in cells]
        csv.writer(written, delimiter="\t", lineterminator="").writerow(row)
        yield written.getvalue()


def check_outputs(
    parts: Sequence[Part],
    out: Path,
    *,
    apply: bool,
    force: bool = False,
    others: Sequence[str] = (),
) -> None:
    """Check the names of the files that `write_files` writes, before the text is read."""
    cleaned = [name for part in parts if apply for name in _cleaned_names(part)]
    read = {real_path(Path(name)) for part in parts for name in part.files}
    read |= {real_path(Path(name)) for name in others}
    keeps = not (force or is_unfinished(out))
    for number, name in enumerate([*cleaned, SUSPECTS]):
        place, fault = out / name, ""
        if name in cleaned[:number]:
            fault = "two of the written files would get this name; check their inputs one by one"
        elif real_path(place) in read:
            fault = "a file that is read; name another directory"
        elif keeps and number < len(cleaned) and place.exists():
            fault = f"there is such a file; {option('force')} replaces it"
        if fault:
            raise DataError(f"{place}: {fault}")


def write_files(
    report: DataReport, text: Corpora, out: Path, *, apply: bool, force: bool = False
) -> list[Path]:
    """Write the suspect pairs to a directory, and with `apply` also the cleaned text.

    All files are written, or none. Aligned files keep their names. A file of pairs becomes a TSV
    file with two columns.
    """
    check_outputs(text.parts, out, apply=apply, force=force)
    written = {SUSPECTS: _encoded(SUSPECTS, suspect_lines(report))}
    starts = text.starts.tolist()
    for number, part in enumerate(text.parts if apply else ()):
        rows = starts[number], starts[number + 1]
        if next(report.kept(*rows), None) is None:
            raise DataError(
                f"{' and '.join(part.files)}: all pairs are suspect, so the cleaned text would be "
                "empty; check without --apply to see why"
            )
        names = _cleaned_names(part)
        for side, name in enumerate(names):
            pairs = report.kept(*rows)
            lines = map(itemgetter(side), pairs) if len(names) == 2 else _table(part, pairs)
            written[name] = _encoded(name, lines)
    make_directory(out)
    cleaned = [name for name in written if name != SUSPECTS]
    atomic_write_all(out, written, new=() if force else cleaned)
    return [out / name for name in cleaned]


def _cleaned_names(part: Part) -> list[str]:
    """Return the names of the cleaned files of a corpus."""
    names = [Path(name).name for name in part.files]
    if len(names) == 2:
        return names
    stem = names[0].removesuffix(".gz")
    packed = ".gz" if stem != names[0] else ""
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return [f"{stem}.tsv{packed}"]


def _table(part: Part, pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield the lines of a TSV file that is read as these pairs."""
    if has_header(part.fields):
        yield "\t".join(part.fields)
    for pair in pairs:
        yield "\t".join(_BREAK.sub(" ", cell) for cell in pair)


def _encoded(name: str, lines: Iterable[str]) -> Iterator[bytes]:
    """Yield the bytes of a file, packed if its name ends in `.gz`."""
    packed = zlib.compressobj(9, wbits=_GZIP) if name.endswith(".gz") else None
    rest = iter(lines)
    while block := list(islice(rest, CHUNK)):
        data = "".join(f"{line}\n" for line in block).encode()
        yield packed.compress(data) if packed else data
    yield packed.flush() if packed else b""
