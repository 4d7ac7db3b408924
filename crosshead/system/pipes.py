"""Read a stream for `crosshead translate`: lines in groups as they arrive, or one document."""

import contextlib
import gzip
import os
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from crosshead.errors import DataError, why_unreadable
from crosshead.system.lines import check_text, gunzipped, line_groups, split_lines

PATIENCE = 0.05
"""Seconds that a line waits for further lines, to be processed in one group."""

FROM_PIPE, FROM_FILE = 1024, 2048
"""The largest number of lines in a group. The reader of a pipe waits for results; a file allows
larger batches."""

LONGEST_DOCUMENT = 1 << 24
"""The largest size of a document in bytes."""

_CHUNK = 1 << 16
_STDIN = 0


def read_groups(name: str, check: Callable[[bytes, str], None] = check_text) -> Iterator[list[str]]:
    r"""Yield the lines of a file in groups, as they arrive.

    Lines end as in `crosshead.system.lines.read_lines`: only `\n` ends a line, a `\r` before it is
    removed, and so is a byte order mark at the beginning. `.gz` files are gunzipped.
    """
    with _opened(name) as stream:
        first = next(stream.chunks, b"")
        check(first, stream.shown)
        yield from line_groups(chain([first], stream.chunks), stream.shown, stream.most)


def read_document(name: str) -> str:
    """Return a file as one text, with its line ends and without a byte order mark."""
    data = bytearray()
    with _opened(name) as stream:
        for chunk in stream.chunks:
            data += chunk
            if len(data) > LONGEST_DOCUMENT:
                raise DataError(
                    f"{stream.shown}: more than {LONGEST_DOCUMENT:,} bytes, the largest size of a "
                    "document; split it, or translate its lines with --format lines"
                )
        split_lines(bytes(data), stream.shown)  # raises if the bytes are not UTF-8
    return data.decode("utf-8").removeprefix("\ufeff")


class _Stream(NamedTuple):
    """An open stream: its name for messages, its bytes, and the size of a group of its lines."""

    shown: str
    chunks: Iterator[bytes]
    most: int


@contextlib.contextmanager
def _opened(name: str) -> Iterator[_Stream]:
    if name == "-":
        try:
            most = _most(_STDIN)
        except OSError:
            raise DataError("standard input is closed; name a file") from None
        yield _Stream("standard input", _arriving(_STDIN), most)
        return
    try:
        file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataError(f"{name}: {why_unreadable(error)}") from None
    with file:
        if name.endswith(".gz"):
            yield _Stream(name, gunzipped(file, name), FROM_FILE)
        else:
            yield _Stream(name, _arriving(file.fileno()), _most(file.fileno()))


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
        return None  # reading the lines raises a clearer error
    return count + (end != b"\n")


def _most(descriptor: int) -> int:
    return FROM_FILE if stat.S_ISREG(os.fstat(descriptor).st_mode) else FROM_PIPE


def _arriving(descriptor: int) -> Iterator[bytes]:
    """Yield the bytes of a descriptor as they arrive.

    An empty chunk follows `PATIENCE` seconds after the first bytes of a group.
    """
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
        # A stream that never pauses also gets the end of a group.
        if now >= deadline:
            deadline = None
            yield b""
