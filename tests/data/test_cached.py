import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crosshead.data.cached import alone, cache_directory, lock, remove_unused

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
    assert gone == sorted([*KEYS[:-1], *(f"{key}.lock" for key in KEYS[:-1])])
    assert list(removed(cache)) == []


def test_what_was_begun_goes_too_and_nothing_else(cache: Path) -> None:
    (cache / KEYS[0]).rename(cache / f"{KEYS[0]}.part")
    for name in ("mine", "a" * 31, f"{'a' * 32}.old", "A" * 32):
        (cache / name).mkdir()
        opened(cache / name, 99)
    (cache / ("9" * 32)).write_text("a file")
    opened(cache / ("9" * 32), 99)
    _, *gone = removed(cache)
    assert gone == sorted([f"{KEYS[0]}.part", *KEYS[1:5], *(f"{key}.lock" for key in KEYS[:5])])


def test_what_is_mapped_or_written_stays(cache: Path) -> None:
    with (cache / KEYS[1] / "rows").open("rb") as file:
        assert lock(file, exclusive=False)
        mapped = np.asarray(np.memmap(file, np.int64, "r"))
    with alone(cache / f"{KEYS[2]}.lock"):
        line, *gone = removed(cache)
    assert line.startswith("removed 3 corpora ")
    assert not {KEYS[1], KEYS[2]} & set(gone)
    del mapped
    assert next(removed(cache)).startswith("removed 2 corpora ")


def test_readers_share_a_lock_and_a_writer_has_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with path.open("rb") as one, path.open("rb") as two, path.open("rb") as three:
        assert lock(one, exclusive=False, wait=False) and lock(two, exclusive=False, wait=False)
        assert not lock(three, exclusive=True, wait=False)
        one.close()
        two.close()
        assert lock(three, exclusive=True, wait=False)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("CROSSHEAD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "crosshead"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_directory() == Path("/x/crosshead")
    monkeypatch.setenv("CROSSHEAD_CACHE", "/y")
    assert cache_directory() == Path("/y")
