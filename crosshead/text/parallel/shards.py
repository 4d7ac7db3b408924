"""Corpora larger than memory: tokenized once, into files that are memory-mapped.

Each corpus is stored in a folder whose name is a key of everything that determines its content. The
folder is written as `KEY.part`, in shards of about a million pairs, and renamed when it is
complete. An interrupted run therefore resumes with the existing shards. The folder's time is the
time of its last use, by which `crosshead.text.parallel.cache` finds unused corpora.

A missing or changed file is damaged and is written again. A file that the system does not allow to
be read ends the run, and nothing is removed.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from crosshead.errors import UserError
from crosshead.system.files import (
    atomic_file,
    atomic_write,
    explain_os_errors,
    make_directory,
)
from crosshead.system.lines import file_sha256
from crosshead.system.workers import in_processes
from crosshead.text.parallel.cache import Check, Say, alone, remove_unused
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

FORMAT = 5
"""The version of the files. It changes with their content, with how the text determines it, or with
the size of a shard."""

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
    """Return the tokenized corpus in `place`, or None if there is no complete one.

    All of it is read once to check its checksums (a second for each gigabyte), and then mapped.
    """
    with _reading(place):
        if not place.is_dir():
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
        stored = open_shards(place, text.parts, _unsaid)
        if stored is None:
            with explain_os_errors(place), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(place)
            part = place.with_suffix(".part")
            if open_shards(part, text.parts, _unsaid) is None:
                make_directory(part)
                save_tokenizers(part, *tokenizers, joint=False)
                count = _write_shards(part, text, held, config, workers, say, check)
                _join(part, count, text, held, check)
            # Removed before the rename, because nothing changes a folder in its final place. If
            # the run is interrupted here, the next run finds `part` complete without the shards.
            _remove_shards(part)
            with explain_os_errors(place):
                part.rename(place)
            stored = _opened(place, text.parts)
            remove_unused(place.parent, say)
    require_some(stored.kept)
    return stored


def _unsaid(line: str) -> None:
    """Print nothing: a callback for messages that are repeated or not needed."""


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
    except (LookupError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise _Damaged(path, str(error)) from None


def _opened(place: Path, parts: Sequence[Part]) -> Stored:
    """Return the corpus in `place`."""
    with contextlib.suppress(OSError):  # it may belong to another user and be read-only
        os.utime(place)
    path = place / _CONTENTS
    with _reading(path):
        contents = json.loads(_unsealed(path))
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
        if hashlib.file_digest(file, "sha256").hexdigest() != facts["sha256"]:
            raise ValueError("has not its checksum")
        if not length:
            return np.zeros(0, dtype)  # an empty file cannot be mapped
        # A plain array is faster, and keeps the mapping open.
        return np.asarray(np.memmap(file, dtype, "r", shape=(length,)))


def _write_shards(
    part: Path,
    text: Corpora,
    held: HeldOut,
    config: DataConfig,
    workers: int,
    say: Say,
    check: Check,
) -> int:
    """Write the missing shards, and return the number of all shards."""
    done: list[np.ndarray] = []
    with contextlib.suppress(_Damaged):  # raised at the first missing shard, at the latest
        while True:
            check()
            done.append(np.array(_read_shard(part, len(done)).hashes))
    if done:
        say(f"resuming the tokenized corpus in {part}, finished shards: {len(done)}")
    else:
        say(f"tokenizing {len(text):,} pairs into {part.parent}, where later runs reuse them")
    rest = islice(tasks(text, held), len(done) * CHUNKS_A_SHARD, None)
    count = len(done)
    function = partial(_encode_in_process, part, config)
    with contextlib.closing(in_processes(function, rest, workers, check, _DIED)) as encoded:
        for shard in sharded(encoded, config.drop_duplicates, done):
            _seal(_shard_path(part, count), safetensors.numpy.save(shard._asdict()))
            count += 1
            last = max(
                (int(rows[-1]) for rows in (shard.rows, shard.left_rows) if len(rows)), default=0
            )
            say(f"tokenized {last + 1:,} of {len(text):,} pairs")
    return count


def _join(part: Path, count: int, text: Corpora, held: HeldOut, check: Check) -> None:
    """Join the shards to one file per array, and write the table of contents."""
    facts: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        files = {
            name: (stack.enter_context(atomic_file(part / name)), hashlib.sha256())
            for name in Encoded._fields
        }
        for shard in continued(_read_shard(part, number) for number in range(count)):
            check()
            for name, array in shard._asdict().items():
                write, digest = files[name]
                data = array.tobytes()
                write(data)
                digest.update(data)
                length = facts.get(name, {"length": 0})["length"] + len(array)
                facts[name] = {"dtype": array.dtype.str, "length": length}
    for name, (_, digest) in files.items():
        facts[name]["sha256"] = digest.hexdigest()
    encoded = Encoded(**{name: _mapped(part / name, facts[name]) for name in facts})
    rows = zip(held.rows.tolist(), held.valid.source, held.valid.target, strict=True)
    contents = {
        "counts": list(text.counts),
        "held": [list(row) for row in rows],
        "repeats": held.repeats.tolist(),
        "sha256": examples_of(encoded).sha256(),
        "arrays": facts,
    }
    _seal(part / _CONTENTS, json.dumps(contents).encode())


def _remove_shards(part: Path) -> None:
    """Remove the shards."""
    with explain_os_errors(part):
        for path in part.glob("shard-*"):
            path.unlink()


def _read_shard(part: Path, number: int) -> Encoded:
    """Return a shard."""
    path = _shard_path(part, number)
    with _reading(path):
        return Encoded(**safetensors.numpy.load(_unsealed(path)))


def _shard_path(part: Path, number: int) -> Path:
    return part / f"shard-{number:05}.safetensors"


def _seal(path: Path, data: bytes) -> None:
    """Write a file that ends in the checksum of its data."""
    atomic_write(path, data + hashlib.sha256(data).digest())


def _unsealed(path: Path) -> bytes:
    """Return the data that `_seal` wrote."""
    whole = path.read_bytes()
    data, digest = whole[:-_DIGEST], whole[-_DIGEST:]
    if hashlib.sha256(data).digest() != digest:
        raise ValueError("has not its checksum")
    return data


def _encode_in_process(directory: Path, config: DataConfig, task: FilterJob) -> Encoded:
    return encode(task, config, *_tokenizers(directory))


@cache
def _tokenizers(directory: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of a directory, loaded once per process."""
    return load_tokenizers(directory, joint=False)
