import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.system.files import lock
from crosshead.text.parallel.cache import alone, cache_directory, remove_unused

DAY = 86_400
KEYS = [letter * 32 for letter in "abcdef"]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Corpora `a` to `f`; the last was opened yesterday, the others 31 days ago."""
    for key in KEYS:
        (tmp_path / key).mkdir()
        (tmp_path / key / "rows").write_bytes(bytes(80))
        (tmp_path / f"{key}.lock").touch()
        opened(tmp_path / key, 1 if key == KEYS[-1] else 31)
    return tmp_path


def opened(place: Path, days: float) -> None:
    os.utime(place, (time.time() - days * DAY,) * 2)


def never() -> None:
    """Nobody asks for the end."""


def left(cache: Path) -> set[str]:
    return {place.name for place in cache.iterdir()}


def removed(cache: Path) -> Iterator[str]:
    before, said = left(cache), list[str]()
    remove_unused(cache, said.append)
    yield from said
    yield from sorted(before - left(cache))


def test_what_nobody_has_opened_for_a_month_goes(cache: Path) -> None:
    line, *gone = removed(cache)
    assert line == f"removed 5 corpora from {cache}: not opened for 30 days"
    assert gone == KEYS[:-1]
    assert list(removed(cache)) == []


def test_what_was_begun_goes_too_and_nothing_else(cache: Path) -> None:
    (cache / KEYS[0]).rename(cache / f"{KEYS[0]}.part")
    for name in ("mine", "a" * 31, f"{'a' * 32}.old", "A" * 32):
        (cache / name).mkdir()
        opened(cache / name, 99)
    (cache / ("9" * 32)).write_text("a file")
    opened(cache / ("9" * 32), 99)
    _, *gone = removed(cache)
    assert gone == [f"{KEYS[0]}.part", *KEYS[1:5]]


def test_what_is_written_stays(cache: Path) -> None:
    with alone(cache / KEYS[2], print, never):
        line, *gone = removed(cache)
    assert line.startswith("removed 4 corpora ")
    assert KEYS[2] not in gone
    assert next(removed(cache)).startswith("removed 1 corpus ")


def test_what_is_removed_is_locked_until_it_is_gone(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever would write it waits, and nobody is given another file to lock in the meantime."""
    place, path = cache / KEYS[0], cache / f"{KEYS[0]}.lock"
    place.rename(place.with_suffix(".part"))
    before, held, remove = path.stat().st_ino, list[bool](), shutil.rmtree

    def watched(part: Path) -> None:
        for moment in (lambda: None, lambda: remove(part)):
            moment()
            with part.with_suffix(".lock").open("ab") as other:
                held.append(lock(other) is False)

    monkeypatch.setattr(shutil, "rmtree", watched)
    assert next(removed(cache)).startswith("removed 5 corpora ")
    assert held == [True] * 10
    assert path.stat().st_ino == before
    with alone(place, pytest.fail, never):
        pass  # and then it is free


def test_who_waits_says_so_once_and_is_asked_whether_to_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    other = contextlib.ExitStack()
    other.enter_context(alone(tmp_path / "key", said.append, never))
    asked = iter([lambda: None, other.close])
    with alone(tmp_path / "key", said.append, lambda: next(asked)()):
        pass
    assert said == [f"waiting for another run that is tokenizing this corpus in {tmp_path}"]
    assert not list(asked)


def test_without_locks_nobody_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with alone(tmp_path / "key", pytest.fail, never), alone(tmp_path / "key", pytest.fail, never):
        pass


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("CROSSHEAD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "crosshead"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_directory() == Path("/x/crosshead")
    monkeypatch.setenv("CROSSHEAD_CACHE", "/y")
    assert cache_directory() == Path("/y")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("CROSSHEAD_CACHE")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    with pytest.raises(UserError, match="set HOME, or set CROSSHEAD_CACHE"):
        cache_directory()
