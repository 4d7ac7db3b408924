import numpy as np
import pytest

from crosshead.errors import UserError
from crosshead.text.parallel.spooled import spooled, spooled_sides

LINES = ["", "a café", "\u2028 \n", "\0", "\U0001f600", ""]


def test_lines_are_read_as_they_were_given() -> None:
    source, target = spooled_sides(
        [(LINES[:2], [*LINES[:4:-1], "x"]), ([], []), (LINES[2:], LINES[2:])]
    )
    assert list(source) == LINES == source[:] and list(target) == ["", "x", *LINES[2:]]
    assert (len(source), source[1], source[-2], source[1:4:2]) == (
        6,
        LINES[1],
        LINES[4],
        LINES[1:4:2],
    )
    with pytest.raises(IndexError):
        source[6]


def test_arrays_become_one() -> None:
    parts = [np.arange(3, dtype=np.int32), np.arange(0, dtype=np.int32), np.array([9], np.int32)]
    assert spooled((part.tobytes() for part in parts), np.int32).tolist() == [0, 1, 2, 9]
    assert spooled([], np.int32).tolist() == []


def test_a_disk_without_room_is_an_error_that_names_the_place() -> None:
    def full() -> bytes:
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"^/.*: cannot be written: No space left on device"):
        spooled((full() for _ in range(1)), np.int32)
