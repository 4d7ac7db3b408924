"""Lines out of a stream as they arrive, in groups: what `crosshead translate` reads from a pipe."""

import gzip
import os
import select
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import LONGEST_LINE, split_lines, too_long

PATIENCE = 0.05
"""Seconds that a line which has arrived waits for others to be answered with."""

FROM_PIPE, FROM_FILE = 1024, 2048
"""Lines of a group at most: a pipe's reader waits for its answers, a file's wants large batches."""

LARGE = 1 << 22
"""Bytes with which a group is full, however few lines they are."""

_CHUNK = 1 << 16
_STDIN = 0


def read_groups(name: str) -> Iterator[list[str]]:
    r"""The lines of a file in groups, as they arrive; `-` is standard input.

    The lines are those of `crosshead.system.lines.read_lines`: `\n` alone ends one, a `\r` before
    it goes with it, a byte order mark in front is removed; `.gz` is gunzipped.
    Raises `DataError` where the file cannot be read or is not UTF-8, after the lines before that
    place have been given.
    """
    if name == "-":
        try:
            most = _most(_STDIN)
        except OSError:
            raise DataError("standard input is closed; name a file") from None
        yield from line_groups(_arriving(_STDIN), "standard input", most)
        return
    try:
        file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataError(f"{name}: {why_unreadable(error)}") from None
    with file:
        if name.endswith(".gz"):
            yield from line_groups(_unzipped(file, name), name, FROM_FILE)
        else:
            yield from line_groups(_arriving(file.fileno()), name, _most(file.fileno()))


def count_lines(name: str) -> int | None:
    """Return the number of lines that `read_groups` yields; None if it is no regular file."""
    if not Path(name).is_file():
        return None
    try:
        with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as file:
            count, end = 0, b"\n"
            while chunk := file.read(_CHUNK):
                count, end = count + chunk.count(b"\n"), chunk[-1:]
    except (OSError, EOFError, zlib.error):
        return None  # reading it in earnest says why
    return count + (end != b"\n")


def line_groups(chunks: Iterable[bytes], name: str, most: int) -> Iterator[list[str]]:
    """The lines in `chunks` in groups of at most `most`, or about `LARGE` bytes.

    An empty chunk ends a group early.

    `name` is what errors call the stream. Raises `DataError` with `name:line:byte` where it is not
    UTF-8, and with `name:line` where a line is too long, after the lines before that one.
    """
    pending = bytearray()
    complete = given = 0
    for chunk in chunks:
        pending += chunk
        complete += chunk.count(b"\n")
        while complete >= most or (complete and (not chunk or len(pending) > LARGE)):
            count = min(most, complete)
            end = _end_of_line(pending, count)
            yield from _decoded(bytes(pending[:end]), name, given)
            del pending[:end]
            complete -= count
            given += count
        if not complete and len(pending) > LONGEST_LINE:
            raise too_long(name, given + 1, LONGEST_LINE)
    if pending:
        yield from _decoded(bytes(pending), name, given)


def _end_of_line(data: bytearray, count: int) -> int:
    """The offset behind the first `count` lines of `data`."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return end


def _decoded(raw: bytes, name: str, before: int) -> Iterator[list[str]]:
    """The lines of `raw`, which follow `before` lines, as one group."""
    good = raw
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        good = raw[: raw.rfind(b"\n", 0, error.start) + 1]
    if lines := split_lines(good, name, before):
        yield lines
    split_lines(raw[len(good) :], name, before + good.count(b"\n"))  # refuses it, line and byte


def _most(descriptor: int) -> int:
    return FROM_FILE if stat.S_ISREG(os.fstat(descriptor).st_mode) else FROM_PIPE


def _arriving(descriptor: int) -> Iterator[bytes]:
    """The bytes of a descriptor as they come; an empty chunk `PATIENCE` after the first of them."""
    deadline = None
    while True:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([descriptor], [], [], wait)
        if not ready:
            deadline = None
            yield b""
            continue
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return
        now = time.monotonic()
        deadline = deadline or now + PATIENCE
        yield chunk
        # A stream that never pauses is answered all the same.
        if now >= deadline:
            deadline = None
            yield b""


def _unzipped(file: FileIO, name: str) -> Iterator[bytes]:
    """The bytes that a gzip file stands for."""
    try:
        with gzip.GzipFile(fileobj=file) as unzipped:
            while chunk := unzipped.read(_CHUNK):
                yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{name}: not a whole gzip file ({error}); compress it again") from None
