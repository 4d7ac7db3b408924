import gzip
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.system import pipes
from crosshead.system.lines import LARGE, line_groups, split_lines
from crosshead.system.pipes import (
    FROM_FILE,
    FROM_PIPE,
    _arriving,
    count_lines,
    read_document,
    read_groups,
)

ODD_TEXT = st.text(alphabet="a\n\r\t \u2028\x85\x0c\x00\ufeffé😀", max_size=60)


@given(ODD_TEXT, st.lists(st.integers(0, 20), max_size=12), st.integers(1, 5))
def test_lines_are_those_of_a_file_however_the_bytes_arrive(
    text: str, sizes: list[int], most: int
) -> None:
    data = text.encode()
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])  # an empty one is a pause
        at += size
    chunks.append(data[at:])
    groups = list(line_groups(chunks, "x", most))
    assert [line for group in groups for line in group] == split_lines(data, "x")
    assert all(1 <= len(group) <= most for group in groups)


def test_a_pause_gives_what_is_complete_and_keeps_the_rest() -> None:
    chunks = iter([b"one\ntw", b"", b"o\nthree"])
    assert list(line_groups(chunks, "x", 100)) == [["one"], ["two", "three"]]


@pytest.mark.parametrize("pause", [b"", b"x"])
def test_bytes_that_are_not_utf8_are_an_error_behind_the_lines_before(pause: bytes) -> None:
    groups = line_groups([b"one\ntwo\n", pause, b"\xc3\xa9\xff\nfour\n"], "in", 100)
    given_lines: list[str] = []
    with pytest.raises(DataError) as caught:
        given_lines.extend(line for group in groups for line in group)
    assert given_lines == ["one", "two"]
    column = 3 + len(pause)
    assert str(caught.value).startswith(f"in:3:{column}: not UTF-8 (byte 0xFF)")


def test_a_byte_order_mark_is_removed_at_the_beginning_alone() -> None:
    mark = b"\xef\xbb\xbf"
    groups = list(line_groups([mark + b"a\n", b"", mark + b"b\n"], "x", 100))
    assert groups == [["a"], ["\ufeffb"]]


def test_a_pipe_is_answered_before_its_end() -> None:
    reading, writing = os.pipe()
    groups = line_groups(_arriving(reading), "pipe", FROM_PIPE)
    for line in (b"first\n", b"second\n"):
        os.write(writing, line)
        assert next(groups) == [line.decode().rstrip()]
    os.write(writing, b"no end")
    os.close(writing)
    assert list(groups) == [["no end"]]
    os.close(reading)


def test_lines_that_arrive_close_together_are_one_group() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        for line in (b"a\n", b"b\n", b"c\n"):
            os.write(writing, line)
            time.sleep(0.001)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    assert list(line_groups(_arriving(reading), "pipe", FROM_PIPE)) == [["a", "b", "c"]]
    writer.join()
    os.close(reading)


def test_a_pipe_full_of_lines_is_cut_into_groups() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x\n" * (FROM_PIPE + 10))
    groups = line_groups(_arriving(reading), "pipe", FROM_PIPE)
    assert len(next(groups)) == FROM_PIPE
    assert len(next(groups)) == 10
    os.close(writing)
    assert list(groups) == []
    os.close(reading)


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_a_file_is_read_in_groups(tmp_path: Path, name: str) -> None:
    lines = [str(number) for number in range(FROM_FILE + 5)]
    data = "\n".join(lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    groups = list(read_groups(str(tmp_path / name)))
    assert [line for group in groups for line in group] == lines
    assert [len(group) for group in groups] == [FROM_FILE, 5]


def test_long_lines_are_few_a_group() -> None:
    line = b"x" * (LARGE // 4) + b"\n"
    groups = list(line_groups([line] * 10, "x", 1024))
    assert [len(group) for group in groups] == [4, 4, 2]


@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_lines_are_counted_beforehand(tmp_path: Path, name: str) -> None:
    data = b"a\n\nb"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert count_lines(str(tmp_path / name)) == 3
    assert count_lines("-") is None
    (tmp_path / "cut.gz").write_bytes(gzip.compress(data)[:-5])
    assert count_lines(str(tmp_path / "cut.gz")) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent: no such file; check its name"):
        list(read_groups(str(tmp_path / "absent")))
    with pytest.raises(DataError, match="is a directory; expected a file"):
        list(read_groups(str(tmp_path)))


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(1000))
    (tmp_path / "cut.gz").write_bytes(whole[:-20])
    (tmp_path / "text.gz").write_bytes(b"not gzip\n")
    for name in ("cut.gz", "text.gz"):
        with pytest.raises(DataError, match=rf"{name}: incomplete or damaged gzip file"):
            list(read_groups(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["page.html", "page.html.gz"])
def test_a_document_keeps_its_line_ends(tmp_path: Path, name: str) -> None:
    data = "\ufeffé\r\n\n b".encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert read_document(str(tmp_path / name)) == "é\r\n\n b"


def test_a_document_that_is_not_utf8_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong").write_bytes(b"one\ntwo\xff\n")
    with pytest.raises(DataError, match=r"wrong:2:4: not UTF-8 \(byte 0xFF\)"):
        read_document(str(tmp_path / "wrong"))
    with pytest.raises(DataError, match=r"absent: no such file"):
        read_document(str(tmp_path / "absent"))
    monkeypatch.setattr(pipes, "LONGEST_DOCUMENT", 1000)
    with pytest.raises(DataError, match=r"/dev/zero: more than 1,000 bytes, .* --format lines"):
        read_document("/dev/zero")
