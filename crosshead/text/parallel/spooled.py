"""Text and arrays in temporary files (`TMPDIR`), for what would not fit into memory.

The files are mapped into memory. The system takes mapped pages back when it needs them.
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from crosshead.system.files import explain_os_errors
from crosshead.text.parallel.pairs import LineSides


class SpooledSide(Sequence[str]):
    """The lines of one side of a text. A line is decoded when it is read.

    The data are the bytes of the lines of both sides in turns, and `ends` has the offset after each
    of them, with a 0 in front. Side 0 has the sources, side 1 the targets.
    """

    def __init__(self, data: np.ndarray, ends: Sequence[int], side: int) -> None:
        self._data, self._ends, self._side = data.data, ends, side

    def __len__(self) -> int:
        return len(self._ends) // 2

    def __getitem__(self, row: Any) -> Any:
        places = range(len(self))[row]
        return self._line(places) if isinstance(places, int) else list(map(self._line, places))

    def __iter__(self) -> Iterator[str]:
        return map(self._line, range(len(self)))

    def _line(self, row: int) -> str:
        at = 2 * row + self._side
        return str(self._data[self._ends[at] : self._ends[at + 1]], "utf-8")


def spooled_sides(chunks: Iterable[tuple[Iterable[str], Iterable[str]]]) -> LineSides:
    """Return all sources and targets of chunks, which are kept in a temporary file."""
    ends = array("q", [0])

    def parts() -> Iterator[bytes]:
        for sides in chunks:
            for pair in zip(*sides, strict=True):
                for line in pair:
                    data = line.encode()
                    ends.append(ends[-1] + len(data))
                    yield data

    data = spooled(parts(), np.uint8)
    return SpooledSide(data, ends, 0), SpooledSide(data, ends, 1)


def spooled(parts: Iterable[bytes], dtype: DTypeLike) -> np.ndarray:
    """Return the bytes of arrays as one array, which is kept in a temporary file."""
    place = Path(f"{tempfile.gettempdir()} (TMPDIR)")
    with explain_os_errors(place), tempfile.TemporaryFile() as file:
        for part in parts:
            file.write(part)
        return np.asarray(np.memmap(file, dtype, "r") if file.tell() else [], dtype)
