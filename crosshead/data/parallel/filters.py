"""Filters of training pairs, with reasons. Translation and evaluation leave nothing out."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.parallel.examples import Examples, Side
from crosshead.data.parallel.held_out import NOTHING, HeldOut
from crosshead.data.parallel.pairs import Origin, Text, numbered, within
from crosshead.data.text.tokenizers import Tokenizer, token_ids
from crosshead.errors import DataError
from crosshead.system.files import atomic_write

LEFT_OUT, HELD_OUT = "left-out.tsv", "held-out.tsv"
"""Files in the run directory."""

REPEATED = "repeats a held-out pair"
DUPLICATE = "duplicate"
REASONS = (REPEATED, "empty side", "too long", "length ratio", DUPLICATE)
"""Every reason there is, in the order in which they are looked for."""

RATIO_SLACK = 5
"""Tokens that the longer side may have over the allowed ratio: short texts vary more."""

# No tokenizer makes so few tokens of so much text (SentencePiece's pieces have at most 16
# characters), so a longer line is too long whatever it says and need not be tokenized.
_CHARACTERS_PER_TOKEN = 64

CHUNKS_A_SHARD = 100
"""So many chunks of the text are one shard: a million pairs."""


class LeftOut(NamedTuple):
    """A pair that is not trained on: where its source side stands, and why."""

    file: str
    line: int
    reason: str


class FilterJob(NamedTuple):
    """Some pairs to tokenize."""

    first: int
    """The row of the first."""
    source: list[str]
    target: list[str]
    held: list[int]
    """The rows that are held out."""
    repeats: list[int]
    """The rows that repeat what is held out."""


class Encoded(NamedTuple):
    """Tokenized pairs as flat arrays: those that are trained on, and which were left out."""

    source_ids: np.ndarray
    """The source ids of all pairs that are kept, concatenated."""
    source_ends: np.ndarray
    """For each pair that is kept, the number of source ids up to its last."""
    target_ids: np.ndarray
    target_ends: np.ndarray
    rows: np.ndarray
    """The rows that are kept, rising."""
    hashes: np.ndarray
    """64 bits of each pair that is kept, where duplicates are unwanted; else empty."""
    left_rows: np.ndarray
    """The rows that are left out, rising."""
    left_reasons: np.ndarray
    """Why: places in `REASONS`."""


@dataclass(frozen=True)
class Kept:
    """The pairs that are trained on, and what was left out."""

    text: Text
    encoded: Encoded
    sha256: str
    """The checksum of the examples."""

    @property
    def examples(self) -> Examples:
        """The ids of the pairs, without begin and end."""
        return examples_of(self.encoded)

    @property
    def left_out(self) -> list[LeftOut]:
        """The pairs that were left out, in the order of the text."""
        encoded = self.encoded
        reasons = [REASONS[each] for each in encoded.left_reasons]
        return [
            LeftOut(*self.text.origin(row), reason)
            for row, reason in zip(encoded.left_rows.tolist(), reasons, strict=True)
        ]

    def counts(self) -> dict[str, int]:
        """Return the number of pairs left out for each reason, in the order of `REASONS`."""
        counts = np.bincount(self.encoded.left_reasons, minlength=len(REASONS))
        return dict(zip(REASONS, counts.tolist(), strict=True))


def keep_pairs(
    text: Text,
    config: DataConfig,
    source: Tokenizer,
    target: Tokenizer,
    held: HeldOut = NOTHING,
) -> Kept:
    """Tokenize the training pairs, in memory, and leave out those that cannot be learned from.

    What is held out is not kept, and what repeats it is left out.
    A side is empty when there is nothing but white space in it; a pair is too long when either
    side has more than `max_length` tokens; its ratio is too large when one side has more than
    `max_ratio` times the tokens of the other and `RATIO_SLACK` more; it is a duplicate, when these
    are unwanted, if both sides repeat those of an earlier pair that was kept. White space around a
    side counts for nothing.

    Pairs are known again by 64 bits of BLAKE2b. That one among n pairs is taken for a duplicate by
    mistake has a probability of n^2 / 2^65: less than one in a million for 5 million pairs.

    Raises `DataError` where no pair is left.
    """
    encoded = (encode(task, config, source, target) for task in tasks(text, held))
    shards = list(continued(sharded(encoded, config.drop_duplicates)))
    whole = Encoded(*map(np.concatenate, zip(*shards, strict=True)))
    kept = Kept(text, whole, examples_of(whole).sha256())
    require_some(kept)
    return kept


def require_some(kept: Kept) -> None:
    """Raise `DataError` where no pair is left."""
    if not len(kept.encoded.rows):
        found = ", ".join(f"{reason}: {count}" for reason, count in kept.counts().items() if count)
        raise DataError(f"no pair is left to train on ({found}); see data.max_length and max_ratio")


def examples_of(encoded: Encoded) -> Examples:
    """The pairs that are kept."""
    return Examples(
        Side(encoded.source_ids, encoded.source_ends), Side(encoded.target_ids, encoded.target_ends)
    )


def tasks(text: Text, held: HeldOut) -> Iterator[FilterJob]:
    """A text in the pieces in which it is tokenized.

    Raises `DataError` where it has another number of pairs by now.
    """
    end = 0
    for first, sides in numbered(text):
        end = first + len(sides[0])
        rows = (within(each, first, end) for each in (held.rows, held.repeats))
        yield FilterJob(first, *sides, *rows)
    if end != len(text):
        raise DataError(f"the text had {len(text)} pairs and now has {end}; begin again")


def encode(task: FilterJob, config: DataConfig, source: Tokenizer, target: Tokenizer) -> Encoded:
    """Tokenize some pairs; a function of its arguments, whichever process it runs in."""
    held, repeats = set(task.held), set(task.repeats)
    kept: list[tuple[int, Sequence[int], Sequence[int]]] = []
    left: list[tuple[int, int]] = []
    hashes: list[int] = []
    sources, targets = _encode(task.source, config, source), _encode(task.target, config, target)
    for place, ids in enumerate(zip(sources, targets, strict=True)):
        row, pair = task.first + place, (task.source[place].strip(), task.target[place].strip())
        if row in held:
            continue
        reason = REPEATED if row in repeats else _reason(pair, *ids, config)
        if reason is not None:
            left.append((row, REASONS.index(reason)))
            continue
        kept.append((row, *ids))
        if config.drop_duplicates:
            hashes.append(_hash(pair))
    return Encoded(
        *_flat([ids for _, ids, _ in kept], source),
        *_flat([ids for _, _, ids in kept], target),
        np.array([row for row, _, _ in kept], np.int64),
        np.array(hashes, np.uint64),
        np.array([row for row, _ in left], np.int64),
        np.array([reason for _, reason in left], np.uint8),
    )


def sharded(
    encoded: Iterator[Encoded], drop_duplicates: bool, seen: Sequence[np.ndarray] = ()
) -> Iterator[Encoded]:
    """Pieces of a text joined to shards, where duplicates are unwanted without these.

    `seen` are the hashes of shards that are done.
    """
    known = np.sort(np.concatenate([np.zeros(0, np.uint64), *seen]))
    while pieces := list(islice(encoded, CHUNKS_A_SHARD)):
        shard = Encoded(*map(np.concatenate, zip(*continued(pieces), strict=True)))
        if drop_duplicates:
            shard = _without_repeats(shard, known)
            known = np.sort(np.concatenate([known, shard.hashes]))
        yield shard


def continued(pieces: Iterable[Encoded]) -> Iterator[Encoded]:
    """Pieces whose ends count from the beginning of the first."""
    source = target = 0
    for piece in pieces:
        moved = piece._replace(
            source_ends=piece.source_ends + source, target_ends=piece.target_ends + target
        )
        source += len(piece.source_ids)
        target += len(piece.target_ids)
        yield moved


def write_left_out(path: Path, rows: Sequence[LeftOut]) -> None:
    """Write a TSV with a header: file, line, reason."""
    _write_rows(path, [LeftOut._fields, *rows])


def write_held_out(path: Path, rows: Sequence[Origin]) -> None:
    """Write a TSV with a header: file and line of each pair that is validated on."""
    _write_rows(path, [Origin._fields, *rows])


def _write_rows(path: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    lines = ["\t".join(map(str, row)) + "\n" for row in rows]
    atomic_write(path, "".join(lines).encode())


def _encode(lines: Sequence[str], config: DataConfig, tokenizer: Tokenizer) -> list[Sequence[int]]:
    """The ids of each line; for one too long to be worth tokenizing, as many as are too many."""
    bound = _CHARACTERS_PER_TOKEN * config.max_length
    fits = [len(line.strip()) <= bound for line in lines]
    fitting = iter(token_ids(tokenizer, compress(lines, fits)))
    too_many = range(config.max_length + 1)
    # An array of machine integers takes a small part of a list's memory.
    return [array("i", next(fitting)) if each else too_many for each in fits]


def _reason(
    pair: tuple[str, str], source: Sequence[int], target: Sequence[int], config: DataConfig
) -> str | None:
    """Return why a stripped pair is left out, or None; duplicates are checked elsewhere."""
    if not all(pair):
        return "empty side"
    shorter, longer = sorted((len(source), len(target)))
    if longer > config.max_length:
        return "too long"
    if longer > config.max_ratio * shorter + RATIO_SLACK:
        return "length ratio"
    return None


def _hash(pair: tuple[str, str]) -> int:
    """64 bits of a pair; the length in front tells where the source ends."""
    text = f"{len(pair[0])} {pair[0]}{pair[1]}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _flat(sides: Sequence[Sequence[int]], tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """The ids of some lines, one after the other, and where each ends."""
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    ends = np.cumsum([len(ids) for ids in sides], dtype=np.int64)
    return np.fromiter(chain.from_iterable(sides), dtype), ends


def _without_repeats(shard: Encoded, known: np.ndarray) -> Encoded:
    """A shard without the pairs whose hashes are known or stand in it before; `known` is sorted."""
    is_first = np.zeros(len(shard.hashes), bool)
    is_first[np.unique(shard.hashes, return_index=True)[1]] = True
    places = np.searchsorted(known, shard.hashes)
    is_known = np.zeros(len(shard.hashes), bool)
    inside = places < len(known)
    is_known[inside] = known[places[inside]] == shard.hashes[inside]
    keep = is_first & ~is_known
    left = np.concatenate([shard.left_rows, shard.rows[~keep]])
    repeated = np.full(int((~keep).sum()), REASONS.index(DUPLICATE), np.uint8)
    order = np.argsort(left)
    return Encoded(
        *_some(shard.source_ids, shard.source_ends, keep),
        *_some(shard.target_ids, shard.target_ends, keep),
        shard.rows[keep],
        shard.hashes[keep],
        left[order],
        np.concatenate([shard.left_reasons, repeated])[order],
    )


def _some(ids: np.ndarray, ends: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids and ends of some lines."""
    lengths = np.diff(ends, prepend=0)
    return ids[np.repeat(keep, lengths)], np.cumsum(lengths[keep], dtype=np.int64)
