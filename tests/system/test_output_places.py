"""What dead processes have left goes; what living ones write stays."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.system import files
from crosshead.system.files import (
    atomic_file,
    atomic_write,
    atomic_write_all,
    hidden_directory,
    is_unfinished,
    is_unused,
    lock,
    output_directory,
    put,
    remove_leftovers,
)


def write_file(place: Path, text: str) -> None:
    atomic_write(place, text.encode())


def write_directory(place: Path, text: str) -> None:
    with hidden_directory(place) as hidden:
        (hidden / "file").write_text(text)
        put(hidden, place, replace=True)


def without_locks(file: object, kind: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def left_by_a_kill(place: Path, kind: str) -> list[Path]:
    """Have a process die while it writes; return what it has left."""
    writing = {"file": "atomic_file", "directory": "hidden_directory"}[kind]
    module = {"file": "files", "directory": "files"}[kind]
    script = (
        f"import os, sys; from pathlib import Path; from crosshead.system.{module} import "
        f"{writing}; writing = {writing}(Path(sys.argv[1])); writing.__enter__(); "
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, place], check=False)
    assert done.returncode == -9
    return [each for each in place.parent.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize(("kind", "write"), [("file", write_file), ("directory", write_directory)])
def test_the_next_start_removes_what_a_kill_has_left(
    kind: str, write: Callable[[Path, str], None], tmp_path: Path
) -> None:
    assert len(left_by_a_kill(tmp_path / "out", kind)) == 1
    assert is_unused(tmp_path) and is_unfinished(tmp_path)
    other = tmp_path / "other"
    write(other, "x")
    assert len(list(tmp_path.iterdir())) == 2  # of another place, and not its own
    write(tmp_path / "out", "y")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "out"]


def test_what_a_living_process_writes_stays_and_the_last_wins_whole(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with atomic_file(place) as first:
        first(b"first")
        assert not is_unused(tmp_path) and not is_unfinished(tmp_path)
        atomic_write(place, b"second")
        assert place.read_bytes() == b"second"
        first(b", whole")
    assert place.read_bytes() == b"first, whole"
    assert list(tmp_path.iterdir()) == [place]


def test_of_two_that_make_a_directory_the_second_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "out"

    def write_both() -> None:
        with output_directory(place) as late:
            with output_directory(place) as early:
                assert early != late
                (early / "file").write_text("early")
            (late / "file").write_text("late")

    with pytest.raises(UserError, match="out: cannot be written: Directory not empty"):
        write_both()
    assert (place / "file").read_text() == "early"
    assert list(tmp_path.iterdir()) == [place]


def test_an_output_that_is_taken_for_a_leftover_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may come between the making of a file and the lock on it."""
    taken, opened = [], os.open

    def open_and_lose(path: Path, flags: int, *more: int) -> int:
        descriptor = opened(path, flags, *more)
        if flags & os.O_CREAT and not taken:
            taken.append(path)
            remove_leftovers(tmp_path, "out")
            assert not path.exists()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    atomic_write(tmp_path / "out", b"x")
    assert taken and [each.name for each in tmp_path.iterdir()] == ["out"]


def test_without_locks_nothing_is_removed_and_output_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / ".out.0.crosshead"
    left.write_bytes(b"perhaps of a living process")
    monkeypatch.setattr("fcntl.flock", without_locks)
    atomic_write(tmp_path / "out", b"x")
    assert (tmp_path / "out").read_bytes() == b"x"
    assert left.read_bytes() == b"perhaps of a living process"
    assert is_unused(tmp_path) is False and is_unfinished(tmp_path)


def test_all_that_several_processes_have_left_goes(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f".out.{number}.crosshead").write_text("x")
    with (tmp_path / ".out.1.crosshead").open() as living:
        assert lock(living)
        atomic_write(tmp_path / "out", b"x")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".out.1.crosshead", "out"]


def test_a_file_of_the_user_with_such_a_name_stays(tmp_path: Path) -> None:
    names = [".out.x.crosshead", ".out.1.tmp", "out.1.crosshead", ".other.1.crosshead"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".out.2.crosshead").symlink_to(tmp_path / names[0])
    atomic_write(tmp_path / "out", b"x")
    found = sorted(each.name for each in tmp_path.iterdir())
    assert found == sorted([*names, ".out.2.crosshead", "out"])


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_takes_the_place_of_another(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    place = tmp_path / "out"
    for text in ("old", "new"):
        write_directory(place, text)
        assert (place / "file").read_text() == text
    assert list(tmp_path.iterdir()) == [place]


def test_an_error_leaves_nothing_not_even_parents(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        with output_directory(place) as hidden:
            (hidden / "file").write_text("x")
            raise KeyboardInterrupt

    for name in ("out", "new/out"):
        with pytest.raises(KeyboardInterrupt):
            fail(tmp_path / name)
        assert list(tmp_path.iterdir()) == []


def test_a_new_file_may_be_there_only_if_it_is_equal(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    atomic_write_all(tmp_path, {"a": b"1", "b": b"1"}, new=["a", "b"])
    for other in (b"2", iter([b"", b"11"])):
        with pytest.raises(UserError, match="b: another file is there"):
            atomic_write_all(tmp_path, {"a": b"1", "b": other}, new=["b"])
    atomic_write_all(tmp_path, {"b": iter([b"", b"1"])}, new=["b"])
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"a": "1", "b": "1"}


@pytest.mark.parametrize("name", ["full", "file"])
def test_a_place_in_use_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with (
        pytest.raises(UserError, match=f"{name}: already exists"),
        output_directory(tmp_path / name),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine" == (tmp_path / "full/file").read_text()
