import contextlib
import errno
import json
import multiprocessing
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from crosshead.errors import DataError, UserError
from crosshead.system import workers
from crosshead.system.files import lock
from crosshead.text.parallel import filters, shards
from crosshead.text.parallel.corpora import Corpora, survey, training_parts
from crosshead.text.parallel.filters import Encoded, Kept, keep_pairs
from crosshead.text.parallel.held_out import HeldOut, hold_out
from crosshead.text.parallel.section import DataConfig
from crosshead.text.parallel.shards import (
    Stored,
    alone,
    cache_directory,
    cache_key,
    open_shards,
    remove_unused,
    store,
)
from crosshead.text.symbols import WordTokenizer

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
TOKENIZER = WordTokenizer.train([" ".join(WORDS)], 30, [])
BOTH = TOKENIZER, TOKENIZER
PAIRS = 230
FILES = {"corpus.json", "source.json", "target.json", *Encoded._fields}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of ten pairs, shards of fifty."""
    monkeypatch.setattr("crosshead.text.parallel.corpora.CHUNK", 10)
    monkeypatch.setattr(filters, "CHUNKS_A_SHARD", 5)
    monkeypatch.setattr(shards, "CHUNKS_A_SHARD", 5)


@pytest.fixture(autouse=True)
def _workers_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork them from a process that has the imports behind it, which `spawn` makes anew in each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([shards.__name__])
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda method: context)


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    """Two corpora, with pairs that are left out for every reason, in every shard."""
    rng = np.random.default_rng(1)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(PAIRS)]
    others = [line[::-1] for line in lines]
    for row in range(3, PAIRS, 20):
        lines[row], others[row + 1] = " ", "one " * 40
        lines[row + 2], others[row + 2] = lines[1], others[1] + " "
    (tmp_path / "a").write_text("\n".join(lines[:104]) + "\n")
    (tmp_path / "b").write_text("\n".join(others[:104]) + "\n")
    rest = zip(lines[104:], others[104:], strict=True)
    (tmp_path / "c.tsv").write_text("".join(f"{one}\t{two}\n" for one, two in rest))
    return DataConfig(
        source=[str(tmp_path / "a")],
        target=[str(tmp_path / "b")],
        pairs=[str(tmp_path / "c.tsv")],
        max_length=30,
        drop_duplicates=True,
        valid_size=10,
    )


def split(config: DataConfig) -> tuple[Corpora, HeldOut]:
    text = survey(training_parts(config))
    return text, hold_out(text, config, 1)


def stored(config: DataConfig, place: Path, said: list[str], workers: int = 1) -> Stored:
    return store(place, *split(config), config, BOTH, workers, said.append, never)


def never() -> None:
    """Nobody asks for the end."""


def in_memory(config: DataConfig) -> Kept:
    text, held = split(config)
    return keep_pairs(text, config, *BOTH, held)


def assert_same(one: Kept, two: Kept) -> None:
    for name, left, right in zip(Encoded._fields, one.encoded, two.encoded, strict=True):
        assert left.dtype == right.dtype and np.array_equal(left, right), name
    assert one.sha256 == two.sha256 == one.examples.sha256()
    assert list(one.examples) == list(two.examples)
    assert one.left_out == two.left_out
    assert one.counts() == two.counts()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_mapped_is_what_would_be_in_memory(
    config: DataConfig, tmp_path: Path, workers: int
) -> None:
    place, said = tmp_path / "cache" / "key", list[str]()
    found = stored(config, place, said, workers)
    expected = in_memory(config)
    assert min(expected.counts()[reason] for reason in ("empty side", "too long", "duplicate")) > 4
    assert_same(found.kept, expected)
    assert len(said) == 6 and said[-1] == f"tokenized {PAIRS} of {PAIRS} pairs"
    again = open_shards(place, training_parts(config), said.append)
    assert again is not None and len(said) == 6
    assert_same(again.kept, expected)
    held = split(config)[1]
    assert again.held.valid == held.valid == found.held.valid
    assert np.array_equal(again.held.rows, held.rows)
    assert np.array_equal(again.held.repeats, held.repeats)
    assert {path.name for path in place.iterdir()} == FILES


def shards_in(place: Path) -> int:
    """The number of finished shards."""
    path = place / "corpus.json"
    return int(json.loads(path.read_bytes()[:-32])["shards"]) if path.exists() else 0


class Killed(BaseException):
    """What a test throws in the place of a signal."""


def killed() -> None:
    """Somebody asks for the end."""
    raise Killed


@contextlib.contextmanager
def another_at_work(place: Path) -> Iterator[None]:
    """A block in which another run writes a corpus, if only for 5 seconds: no mistake hangs."""
    with contextlib.ExitStack() as run:
        run.enter_context(alone(place, pytest.fail, never))
        timer = threading.Timer(5, run.close)
        timer.start()
        yield
        timer.cancel()


def killed_at(line: str) -> Callable[[str], None]:
    """Somebody asks for the end once a line that begins so is said."""

    def kill(said: str) -> None:
        if said.startswith(line):
            raise Killed

    return kill


@pytest.mark.parametrize("done", [1, 3, 5])
def test_interrupted_and_continued_is_uninterrupted(
    config: DataConfig, tmp_path: Path, done: int
) -> None:
    place = tmp_path / "key"

    def kill(line: str) -> None:
        if shards_in(place) == done:
            raise Killed

    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, kill, never)
    assert open_shards(place, training_parts(config), pytest.fail) is None
    said: list[str] = []
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert said[0].endswith(f"finished shards: {done}")
    assert len(said) == 6 - done


def test_a_process_that_dies_ends_it_in_one_line_and_loses_no_shard(
    config: DataConfig, tmp_path: Path
) -> None:
    place = tmp_path / "key"

    def kill(line: str) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(UserError, match="a tokenizing process died") as caught:
        store(place, *split(config), config, BOTH, 1, kill, never)
    assert "\n" not in str(caught.value)
    said: list[str] = []
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert "resuming the tokenized corpus" in said[0]


@pytest.mark.parametrize("name", ["corpus.json", "rows"])
def test_an_interrupted_corpus_that_is_damaged_is_begun_anew(
    config: DataConfig, tmp_path: Path, name: str
) -> None:
    place = tmp_path / "key"
    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, killed_at("tokenized 144"), never)
    path = place / name
    path.write_bytes(b"\x07" + path.read_bytes()[1:])
    said: list[str] = []
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert said[0].startswith("tokenizing") and len(said) == 6


@pytest.mark.parametrize("appended", [b"", b"half of it"])
def test_what_a_killed_writer_has_appended_to_an_array_goes(
    config: DataConfig, tmp_path: Path, appended: bytes
) -> None:
    place = tmp_path / "key"
    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, killed_at("tokenized 144"), never)
    for name in Encoded._fields:
        with (place / name).open("ab") as file:
            file.write(appended)
    said: list[str] = []
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert said[0].endswith("finished shards: 3")


def test_a_damaged_corpus_is_made_again_and_the_line_says_so(
    config: DataConfig, tmp_path: Path
) -> None:
    whole, place, said = tmp_path / "whole", tmp_path / "key", list[str]()
    stored(config, whole, said)
    cut = {"cut": lambda data: data[:-1], "flipped": lambda data: data[:-1] + b"\x07", "gone": None}
    for path in sorted(whole.iterdir()):
        if path.name.startswith(("source.", "target.")):  # the tokenizers are not read again
            continue
        for damage in cut.values():
            shutil.copytree(whole, place)
            if damage is None:
                (place / path.name).unlink()
            else:
                (place / path.name).write_bytes(damage(path.read_bytes()))
            said.clear()
            assert open_shards(place, training_parts(config), said.append) is None, path
            if path.name == "corpus.json" and damage is None:
                assert not said  # nothing tells it from a corpus that was just begun
                shutil.rmtree(place)
                continue
            [line] = said
            assert line.startswith(f"the tokenized corpus in {place} is damaged ({path.stem}")
            assert "\n" not in line
            shutil.rmtree(place)
    for name in ("corpus.json", "rows"):
        shutil.copytree(whole, place, dirs_exist_ok=True)
        (place / name).write_bytes(b"")
        said.clear()
        assert_same(stored(config, place, said).kept, in_memory(config))
        assert len(said) == 6


def test_what_another_process_has_made_anew_meanwhile_is_taken(
    config: DataConfig, tmp_path: Path
) -> None:
    place, said = tmp_path / "key", list[str]()
    stored(config, place, said)
    shutil.copytree(place, tmp_path / "whole")
    (place / "rows").unlink()
    assert open_shards(place, training_parts(config), said.append) is None
    shutil.rmtree(place)
    (tmp_path / "whole").rename(place)
    before = (place / "corpus.json").stat().st_mtime_ns
    said.clear()
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert (place / "corpus.json").stat().st_mtime_ns == before and not said


def test_what_is_damaged_is_removed_by_who_is_alone_with_it(
    config: DataConfig, tmp_path: Path
) -> None:
    place, said = tmp_path / "key", list[str]()
    stored(config, place, said)
    (place / "rows").unlink()
    before = sorted(place.iterdir())
    with another_at_work(place):
        assert open_shards(place, training_parts(config), said.append) is None
        with pytest.raises(Killed):
            store(place, *split(config), config, BOTH, 1, said.append, killed)
    assert sorted(place.iterdir()) == before


@contextlib.contextmanager
def no_files_left() -> Iterator[None]:
    """A block in which this process has all the files open that it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(1))
        yield
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_many_open_files_are_no_damage(config: DataConfig, tmp_path: Path) -> None:
    place, said = tmp_path / "key", list[str]()
    stored(config, place, said)
    before, parts = sorted(place.iterdir()), training_parts(config)
    with (
        pytest.raises(UserError, match=rf"^{place}/corpus.json: cannot be read: Too many open"),
        no_files_left(),
    ):
        open_shards(place, parts, pytest.fail)
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("function", ["numpy.memmap", "hashlib.file_digest"])
def test_what_the_system_does_not_let_be_read_is_no_damage(
    config: DataConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    number: int,
) -> None:
    place, said = tmp_path / "key", list[str]()
    stored(config, place, said)
    before = sorted(place.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(function, refused(number))
        for again in (
            lambda: open_shards(place, training_parts(config), pytest.fail),
            lambda: stored(config, place, []),
        ):
            with pytest.raises(UserError) as caught:
                again()
            assert str(caught.value).startswith(f"{place}/source_ids: cannot be read: ")
            assert os.strerror(number) in str(caught.value) and "\n" not in str(caught.value)
            assert sorted(place.iterdir()) == before
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert len(said) == 6


def refused(number: int) -> Callable[..., None]:
    """A function against which the system is."""

    def refuse(*given: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EIO])
def test_shards_that_the_system_does_not_let_be_read_are_not_made_again(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    place = tmp_path / "key"
    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, killed_at("tokenized 144"), never)
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr("hashlib.file_digest", refused(number))
        with pytest.raises(UserError, match=rf"^{place}/source_ids: cannot be read: "):
            stored(config, place, [])
    assert before.keys() == set(place.iterdir()) and shards_in(place) == 3
    said: list[str] = []
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert said[0].endswith("finished shards: 3")


def test_cut_off_before_its_end_is_recorded_it_loses_no_shard(
    config: DataConfig, tmp_path: Path
) -> None:
    place, said = tmp_path / "key", list[str]()
    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, killed_at(f"tokenized {PAIRS}"), never)
    assert open_shards(place, training_parts(config), pytest.fail) is None
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert len(said) == 1 and said[0].endswith("finished shards: 5")


def test_what_a_killed_writer_has_begun_goes(config: DataConfig, tmp_path: Path) -> None:
    place, said = tmp_path / "key", list[str]()
    place.mkdir()
    for name in (".corpus.json.0.crosshead", "rows", "other"):
        (place / name).write_bytes(b"half of it")
    assert_same(stored(config, place, said).kept, in_memory(config))
    assert {path.name for path in place.iterdir()} == FILES


def test_nothing_there_is_nothing_to_say(config: DataConfig, tmp_path: Path) -> None:
    said: list[str] = []
    assert open_shards(tmp_path / "key", training_parts(config), said.append) is None
    assert not said


def test_what_another_process_has_made_meanwhile_is_taken(
    config: DataConfig, tmp_path: Path
) -> None:
    place, said = tmp_path / "key", list[str]()
    first = stored(config, place, said)
    before = (place / "corpus.json").stat().st_mtime_ns
    second = stored(config, place, said)
    assert (place / "corpus.json").stat().st_mtime_ns == before and len(said) == 6
    assert_same(second.kept, first.kept)


def test_text_that_changes_while_it_is_read_is_refused(config: DataConfig, tmp_path: Path) -> None:
    text, held = split(config)
    Path(config.pairs[0]).write_text("one\ttwo\n")
    with pytest.raises(DataError, match=f"it had {PAIRS} pairs and now has 105"):
        store(tmp_path / "key", text, held, config, BOTH, 1, print, never)


def test_nothing_left_is_an_error_that_counts(config: DataConfig, tmp_path: Path) -> None:
    nothing = config.model_copy(update={"max_length": 1, "max_ratio": 1.0})
    text, held = split(config)
    Path(config.source[0]).write_text(" \n" * 104)
    Path(config.pairs[0]).write_text(" \t \n" * 126)
    with pytest.raises(DataError, match=r"no pair is left to train on \(.*empty side: "):
        store(tmp_path / "key", text, held, nothing, BOTH, 1, print, never)


def test_a_place_that_cannot_be_written_is_an_error_of_one_line(
    config: DataConfig, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the directory"):
        store(tmp_path / "file" / "key", *split(config), config, BOTH, 1, print, never)


def key(config: DataConfig, folder: Path, seed: int | None = 1, **changes: object) -> str:
    folder.mkdir()
    files = [["a", "b"], ["c"]]
    return cache_key(files, config.model_copy(update=changes), BOTH, seed, folder, 7)


def test_a_key_follows_from_all_that_the_corpus_follows_from(
    config: DataConfig, tmp_path: Path
) -> None:
    keys = [
        key(config, tmp_path / "1"),
        key(config, tmp_path / "2", max_length=7),
        key(config, tmp_path / "3", drop_duplicates=False),
        key(config, tmp_path / "4", fields=["2", "1"]),
        key(config, tmp_path / "5", seed=2),
        key(config, tmp_path / "6", seed=None),
        key(config, tmp_path / "7", pairs=["c.jsonl"]),
        key(config, tmp_path / "8", valid_size=9),
        key(config, tmp_path / "13", share=0.5),
        key(config, tmp_path / "14", fold=[1, 2]),
    ]
    assert len(set(keys)) == len(keys)
    assert key(config, tmp_path / "9", pairs=["elsewhere.tsv"]) == keys[0]
    assert key(config, tmp_path / "10", weights=[1.0, 2.0]) == keys[0]
    other = WordTokenizer.train(["one two"], 30, [])
    (tmp_path / "11").mkdir()
    files = [["a", "b"], ["c"]]
    assert cache_key(files, config, (TOKENIZER, other), 1, tmp_path / "11", 7) != keys[0]
    (tmp_path / "12").mkdir()
    assert cache_key([["a", "b"], ["d"]], config, BOTH, 1, tmp_path / "12", 7) != keys[0]
    (tmp_path / "15").mkdir()
    assert cache_key(files, config, BOTH, 1, tmp_path / "15", 7, ["v"]) != keys[0]


def test_a_new_corpus_makes_those_go_that_nobody_has_opened_for_a_month(
    config: DataConfig, tmp_path: Path
) -> None:
    place, used, unused = (tmp_path / "cache" / (letter * 32) for letter in "abc")
    said: list[str] = []
    for each in (used, unused):
        stored(config, each, said)
    month_ago = time.time() - 31 * 86_400
    for each in (used, unused):
        os.utime(each, (month_ago, month_ago))
    opened = open_shards(used, training_parts(config), said.append)
    said.clear()
    stored(config, place, said)
    assert said[-1] == f"removed 1 corpus from {place.parent}: not opened for 30 days"
    assert opened is not None and used.is_dir() and not unused.exists()
    assert open_shards(used, training_parts(config), said.append) is not None
    assert used.stat().st_mtime > month_ago + 1


def test_whoever_is_asked_to_stop_kills_what_he_began_and_keeps_what_is_done(
    config: DataConfig, tmp_path: Path
) -> None:
    place, before = tmp_path / "key", set(multiprocessing.active_children())

    def check() -> None:
        if shards_in(place):
            raise Killed

    with pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, print, check)
    assert set(multiprocessing.active_children()) == before
    assert shards_in(place) == 1


def test_whoever_waits_for_another_run_may_be_asked_to_stop(
    config: DataConfig, tmp_path: Path
) -> None:
    place, said, asked = tmp_path / "key", list[str](), list[int]()

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise Killed

    with another_at_work(place), pytest.raises(Killed):
        store(place, *split(config), config, BOTH, 1, said.append, check)
    assert said == [f"waiting for another run that is tokenizing this corpus in {tmp_path}"]
    assert not place.exists()
    assert_same(stored(config, place, said).kept, in_memory(config))


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
    assert gone == KEYS[:-1]
    assert list(removed(cache)) == []


def test_nothing_else_goes(cache: Path) -> None:
    for name in ("mine", "a" * 31, f"{'a' * 32}.old", "A" * 32):
        (cache / name).mkdir()
        opened(cache / name, 99)
    (cache / ("9" * 32)).write_text("a file")
    opened(cache / ("9" * 32), 99)
    _, *gone = removed(cache)
    assert gone == KEYS[:-1]


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
