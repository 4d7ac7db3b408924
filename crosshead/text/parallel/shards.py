"""Corpora larger than memory: tokenized once, into a cache of files that are memory-mapped.

Each corpus has a folder whose name, `KEY`, is a checksum of everything that determines its content.
Shards of about a million pairs are appended to one file per array, and a table of contents says how
much of each file is finished. So an interrupted run resumes after its last shard. The folder's time
is the time of its last use.

A process that writes or removes the folder holds the lock on the file `KEY.lock` beside it. The
lock file is empty and is never removed. If it were removed, the next process would make another
file and lock that one, beside the holder of the first.

A missing or changed file is damaged, and its corpus is written again. A file that the system does
not allow to be read ends the run, and nothing is removed.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.errors import UserError
from crosshead.system.files import atomic_write, explain_os_errors, lock, make_directory
from crosshead.system.lines import file_sha256
from crosshead.system.workers import in_processes
from crosshead.text.parallel.corpora import Corpora, Part
from crosshead.text.parallel.filters import (
    CHUNKS_A_SHARD,
    Encoded,
    FilterJob,
    Kept,
    continued,
    encode,
    examples_of,
    require_some,
    sharded,
    tasks,
)
from crosshead.text.parallel.held_out import HeldOut, held_out
from crosshead.text.parallel.section import DataConfig
from crosshead.text.parallel.tables import file_kind
from crosshead.text.tokenizers import Tokenizer, load_tokenizers, save_tokenizers

FORMAT = 6
"""The version of the files. It changes with their content, with how the text determines it, or with
the size of a shard."""

UNUSED = 30
"""Days after which a corpus that no run has opened may be removed."""

PATIENCE = 0.2
"""Seconds between two calls of `check` while waiting."""

Say = Callable[[str], None]
Check = Callable[[], None]

_CONTENTS = "corpus.json"
_DIGEST = hashlib.sha256().digest_size
_DIED = (
    "a tokenizing process died, perhaps because memory ran out; run the same command again, which "
    "keeps the finished shards"
)


@dataclass(frozen=True)
class Stored:
    """A tokenized corpus in the cache."""

    text: Corpora
    kept: Kept
    held: HeldOut


def cache_key(
    files: Sequence[Sequence[str]],
    config: DataConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    held_out_seed: int | None,
    scratch: Path,
    share_seed: int,
    old_valid: Sequence[str] = (),
) -> str:
    """Return the name of a tokenized corpus: a checksum of all that determines its content."""
    save_tokenizers(scratch, *tokenizers, joint=False)
    settings = config.model_dump(include={"fields", "max_length", "max_ratio", "drop_duplicates"})
    content = {
        "format": FORMAT,
        "files": [list(part) for part in files],
        "kinds": [file_kind(Path(name)) for name in [*config.pairs, *config.old_pairs]],
        "settings": settings,
        "held_out": None if held_out_seed is None else [held_out_seed, config.valid_size],
        **({"share": [config.share, share_seed]} if config.share < 1 else {}),
        **({"fold": config.fold} if config.fold else {}),
        **({"old_valid": list(old_valid)} if old_valid else {}),
        "tokenizers": {path.name: file_sha256(path) for path in sorted(scratch.iterdir())},
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def open_shards(place: Path, parts: Sequence[Part], say: Say) -> Stored | None:
    """Return the tokenized corpus in `place`, or None if there is no complete one yet.

    All of it is read once to check its checksums (a second for each gigabyte), and then mapped.
    """
    with _reading(place):
        if not (place / _CONTENTS).is_file():
            return None
    try:
        return _opened(place, parts)
    except _Damaged as error:
        say(f"the tokenized corpus in {place} is damaged ({error.found}); writing it again")
        return None


def store(
    place: Path,
    text: Corpora,
    held: HeldOut,
    config: DataConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    workers: int,
    say: Say,
    check: Check,
) -> Stored:
    """Tokenize a corpus into `place` with several processes, and open it.

    The call resumes partial output of an earlier call and replaces damaged files. One process at a
    time does this. Other processes wait, and then open the result.
    """
    make_directory(place.parent)
    with alone(place, say, check):
        # Checked again: another process may have written it before this one got the lock.
        stored = open_shards(place, text.parts, lambda line: None)
        if stored is None:
            _write(place, text, held, config, tokenizers, workers, say, check)
            stored = _opened(place, text.parts)
            remove_unused(place.parent, say)
    assert stored is not None
    require_some(stored.kept)
    return stored


class _Damaged(UserError):
    """A missing or changed file of a tokenized corpus. `found` says what is wrong."""

    def __init__(self, path: Path, reason: str) -> None:
        self.found = f"{path.name}: {reason}"
        super().__init__(f"{path}: {reason}; run the same command again to write it again")


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of a block that reads `path` into `_Damaged`, or into `UserError`.

    A file that cannot be accessed is not damaged: it raises `UserError`.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise _Damaged(Path(error.filename or path), "missing") from None
    except OSError as error:
        raise UserError(
            f"{error.filename or path}: cannot be read: {error.strerror or error}; make it "
            "readable, or remove its folder, then run the same command again (nothing was removed)"
        ) from None
    except (LookupError, TypeError, ValueError) as error:
        raise _Damaged(path, str(error)) from None


def _opened(place: Path, parts: Sequence[Part]) -> Stored | None:
    """Return the corpus in `place`, or None while it is written."""
    with contextlib.suppress(OSError):  # it may belong to another user and be read-only
        os.utime(place)
    contents = _read_contents(place)
    if "counts" not in contents:
        return None
    with _reading(place / _CONTENTS):
        text = Corpora(parts, contents["counts"])
        valid = [((source, target), text.origin(row)) for row, source, target in contents["held"]]
        repeats = [int(row) for row in contents["repeats"]]
        held = held_out(valid, [row for row, _, _ in contents["held"]], repeats)
        arrays = {name: _mapped(place / name, facts) for name, facts in contents["arrays"].items()}
        return Stored(text, Kept(text, Encoded(**arrays), contents["sha256"]), held)


def _mapped(path: Path, facts: dict[str, Any]) -> np.ndarray:
    """Map a file as an array after checking its checksum."""
    dtype, length = np.dtype(facts["dtype"]), int(facts["length"])
    with _reading(path), path.open("rb") as file:
        _require(hashlib.file_digest(file, "sha256").hexdigest() == facts["sha256"])
        if not length:
            return np.zeros(0, dtype)  # an empty file cannot be mapped
        # A plain array is faster, and keeps the mapping open.
        return np.asarray(np.memmap(file, dtype, "r", shape=(length,)))


class _Growing:
    """The file of an array to which shards are appended, and the checksum of its content."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        """Cut what a killed writer has appended after the last finished shard."""
        self.path, self.facts = path, facts
        with _reading(path), path.open("r+b") as file:
            file.truncate(facts["length"] * np.dtype(facts["dtype"]).itemsize)
            self._digest = hashlib.file_digest(file, "sha256")
            _require(self._digest.hexdigest() == facts["sha256"])

    def append(self, array: np.ndarray) -> None:
        """Append the numbers of a shard. They are on the disk before a table of contents is."""
        data = array.tobytes()
        with explain_os_errors(self.path), self.path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._digest.update(data)
        length = self.facts["length"] + len(array)
        self.facts = _facts(array.dtype.str, length, self._digest.hexdigest())


def _facts(dtype: str, length: int, sha256: str) -> dict[str, Any]:
    """Return an entry of the table of contents."""
    return {"dtype": dtype, "length": length, "sha256": sha256}


def _write(
    place: Path,
    text: Corpora,
    held: HeldOut,
    config: DataConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    workers: int,
    say: Say,
    check: Check,
) -> None:
    """Write the arrays shard by shard, after the shards that are finished."""
    try:
        count, files = _finished(place)
        say(f"resuming the tokenized corpus in {place}, finished shards: {count}")
    except _Damaged:
        with explain_os_errors(place), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)
        make_directory(place)
        save_tokenizers(place, *tokenizers, joint=False)
        for name in Encoded._fields:
            (place / name).touch()
        empty = _facts("u1", 0, hashlib.sha256().hexdigest())
        count, files = 0, {name: _Growing(place / name, empty) for name in Encoded._fields}
        say(f"tokenizing {len(text):,} pairs into {place.parent}, where later runs reuse them")
    known = np.fromfile(place / "hashes", np.uint64)
    ends = [files[name].facts["length"] for name in ("source_ids", "target_ids")]
    rest = islice(tasks(text, held), count * CHUNKS_A_SHARD, None)
    function = partial(_encode_in_process, place, config)
    with contextlib.closing(in_processes(function, rest, workers, check, _DIED)) as encoded:
        for shard in continued(sharded(encoded, config.drop_duplicates, known), *ends):
            for name, array in shard._asdict().items():
                files[name].append(array)
            count += 1
            _write_contents(place, count, files)
            last = max(
                (int(rows[-1]) for rows in (shard.rows, shard.left_rows) if len(rows)), default=0
            )
            say(f"tokenized {last + 1:,} of {len(text):,} pairs")
    whole = Encoded(**{name: _mapped(place / name, each.facts) for name, each in files.items()})
    rows = zip(held.rows.tolist(), held.valid.source, held.valid.target, strict=True)
    _write_contents(
        place,
        count,
        files,
        counts=list(text.counts),
        held=[list(row) for row in rows],
        repeats=held.repeats.tolist(),
        sha256=examples_of(whole).sha256(),
    )


def _finished(place: Path) -> tuple[int, dict[str, _Growing]]:
    """Return the number of finished shards, and the arrays that hold them."""
    contents = _read_contents(place)
    with _reading(place / _CONTENTS):
        count, arrays = int(contents["shards"]), contents["arrays"]
        return count, {name: _Growing(place / name, arrays[name]) for name in Encoded._fields}


def _write_contents(place: Path, count: int, files: dict[str, _Growing], **whole: Any) -> None:
    """Write the table of contents, which ends in its checksum.

    It has the facts of the finished shards, and those of the whole corpus once that is complete.
    """
    arrays = {name: each.facts for name, each in files.items()}
    data = json.dumps({"shards": count, "arrays": arrays, **whole}).encode()
    atomic_write(place / _CONTENTS, data + hashlib.sha256(data).digest())


def _read_contents(place: Path) -> dict[str, Any]:
    """Return the table of contents."""
    path = place / _CONTENTS
    with _reading(path):
        whole = path.read_bytes()
        data, digest = whole[:-_DIGEST], whole[-_DIGEST:]
        _require(hashlib.sha256(data).digest() == digest)
        contents: dict[str, Any] = json.loads(data)
        return contents


def _require(has_checksum: bool) -> None:
    if not has_checksum:
        raise ValueError("has not its checksum")


def _encode_in_process(directory: Path, config: DataConfig, task: FilterJob) -> Encoded:
    return encode(task, config, *_tokenizers(directory))


@cache
def _tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of a directory, loaded once per process."""
    return load_tokenizers(directory, joint=False)


def cache_directory() -> Path:
    """Return the cache: `$CROSSHEAD_CACHE`, or `crosshead` in the user's cache."""
    if own := os.environ.get("CROSSHEAD_CACHE"):
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosshead"
    except RuntimeError:
        raise UserError(
            "no home directory, so no place to keep tokenized corpora: set HOME, or set "
            "CROSSHEAD_CACHE to a directory"
        ) from None


@contextlib.contextmanager
def alone(place: Path, say: Say, check: Check) -> Iterator[None]:
    """Hold the lock of the corpus in `place`, so that no other process writes or removes it.

    If another process holds the lock, wait for it.
    """
    path = _lock_of(place)
    with explain_os_errors(path):
        file = path.open("ab")
    with file:
        # The system's own blocking wait is not used: Python resumes it after a signal.
        if lock(file) is False:
            say(f"waiting for another run that is tokenizing this corpus in {place.parent}")
            while lock(file) is False:
                check()
                time.sleep(PATIENCE)
        yield


def remove_unused(directory: Path, say: Say) -> None:
    """Remove the corpora that nobody has opened for `UNUSED` days, and say so in one line.

    A corpus that a process is writing stays, and so does everything else in `directory`. A corpus
    that is mapped can be read until its run ends.
    """
    removed = 0
    for place in sorted(directory.iterdir()):
        with contextlib.suppress(OSError):  # another run removed it, or another user owns it
            removed += _is_unused(place) and _remove(place)
    if removed:
        corpora = "corpus" if removed == 1 else "corpora"
        say(f"removed {removed} {corpora} from {directory}: not opened for {UNUSED} days")


def _remove(place: Path) -> bool:
    """Remove a corpus unless another process holds its lock."""
    with _lock_of(place).open("ab") as file:
        if lock(file) is False:
            return False
        shutil.rmtree(place)
    return True


def _is_unused(place: Path) -> bool:
    """Return whether a path is a corpus that was last opened or changed long ago."""
    is_corpus = re.fullmatch(r"[0-9a-f]{32}", place.name) and place.is_dir()
    return bool(is_corpus) and time.time() - place.stat().st_mtime > UNUSED * 86_400


def _lock_of(place: Path) -> Path:
    return place.with_suffix(".lock")
