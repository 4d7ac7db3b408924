import errno
import io
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import UserError
from crosshead.system import files
from crosshead.system.files import (
    atomic_file,
    atomic_write,
    atomic_write_all,
    make_directory,
    real_path,
    write_all,
)


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with atomic_file(path) as write:
        write(b"one ")
        assert not path.exists()
        write(b"two")
    assert path.read_bytes() == b"one two"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    atomic_write(path, b"earlier")

    def fail() -> None:
        with atomic_file(path) as write:
            write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_line_and_the_earlier_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.txt"
    atomic_write(path, b"earlier")
    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"out\.txt: cannot be written: No space left") as caught:
        atomic_write(path, b"new")
    assert "\n" not in str(caught.value)
    assert "the earlier file is intact; free some space" in str(caught.value)
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]
    path.unlink()
    with pytest.raises(UserError, match="No space left on device; free some space") as caught:
        atomic_write(path, b"new")
    assert "earlier" not in str(caught.value)


def test_of_several_files_none_is_replaced_when_one_cannot_be_written(tmp_path: Path) -> None:
    atomic_write_all(tmp_path, {"a": b"1", "b": b"1"})
    with pytest.raises(UserError, match="missing/c"):
        atomic_write_all(tmp_path, {"a": b"2", "missing/c": b"2", "b": b"2"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "b": b"1"}


def test_of_several_files_none_is_replaced_when_one_cannot_be_synchronised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic_write_all(tmp_path, {"a": b"1", "b": b"1"})
    calls = []

    def full_at_the_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            full_disk(descriptor)

    monkeypatch.setattr(files.os, "fsync", full_at_the_second)
    with pytest.raises(UserError, match="b: cannot be written: No space left"):
        atomic_write_all(tmp_path, {"a": b"2", "b": b"2"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "b": b"1"}


def test_several_files_are_moved_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []
    replace = Path.replace

    def spy(self: Path, target: Path) -> Path:
        moved.append(target.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", spy)
    atomic_write_all(tmp_path, {"first": b"1", "second": b"2", "last": b"3"})
    assert moved == ["first", "second", "last"]


@pytest.mark.parametrize("name", ["missing/out.txt", "folder", "file/out.txt"])
def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"{name}: cannot be written"):
        atomic_write(tmp_path / name, b"")


def test_an_interrupt_just_after_opening_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def open_and_interrupt(path: Path, flags: int, *more: Any) -> int:
        descriptor = opened(path, flags, *more)
        if not flags & os.O_CREAT:
            return descriptor
        os.close(descriptor)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", open_and_interrupt)
    with pytest.raises(KeyboardInterrupt), atomic_file(tmp_path / "a.txt"):
        pass
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "b.txt", b"text")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    atomic_write(tmp_path / "link", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"
    assert (tmp_path / "link").is_symlink()


def test_a_directory_is_made_or_is_there(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: cannot make the directory: File exists"):
        make_directory(tmp_path / "file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_is_written_to_and_not_replaced() -> None:
    with atomic_file(Path("/dev/null")) as write:
        write(b"x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(UserError, match="No space left"), atomic_file(Path("/dev/full")) as write:
        write(b"x")
    assert Path("/dev/full").is_char_device()


def test_an_error_of_the_block_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    def read_another() -> None:
        with atomic_file(tmp_path / "out.txt"):
            (tmp_path / "input.txt").read_bytes()

    with pytest.raises(FileNotFoundError, match=r"input\.txt"):
        read_another()


class Sip(io.FileIO):
    """Takes three bytes at a time, as a pipe or a disk that fills up may."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        return super().write(data[:3])


def test_a_file_that_takes_less_at_a_time_is_given_the_rest(tmp_path: Path) -> None:
    with Sip(tmp_path / "file", "wb") as file:
        write_all(file, b"ten bytes.")
    assert (tmp_path / "file").read_bytes() == b"ten bytes."


@pytest.mark.parametrize("link", [False, True])
def test_what_is_no_file_is_not_written_through(link: bool, tmp_path: Path) -> None:
    """A named pipe in the place of a file that a run writes would wait for a reader for ever."""
    place = tmp_path / "log"
    if link:
        place.symlink_to("/dev/full")
    else:
        os.mkfifo(place)
    contents = {"log": b"x"}
    for write in (
        partial(atomic_write, place, b"x"),
        partial(atomic_write_all, tmp_path, contents),
    ):
        with pytest.raises(UserError, match=r"log: a pipe or a device.*remove it"):
            write()
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_to_itself_is_a_path(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert real_path(loop / "x").name == "x"
