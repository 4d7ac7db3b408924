"""Filters of training pairs, with a reason for each pair left out, and a quick check of all pairs.

Translation and evaluation leave nothing out.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosshead.errors import DataError
from crosshead.extensions import added
from crosshead.system.files import atomic_write
from crosshead.text.parallel.examples import Examples, Side, flat
from crosshead.text.parallel.held_out import NOTHING, HeldOut
from crosshead.text.parallel.pairs import (
    Origin,
    ParallelText,
    Text,
    comparable,
    numbered,
    pair_hash,
    stripped,
    within,
)
from crosshead.text.parallel.section import DataConfig
from crosshead.text.tokenizers import Tokenizer, token_ids

LEFT_OUT, HELD_OUT = "left-out.tsv", "held-out.tsv"
"""Files in the run directory."""

REPEATED = "repeats a validation source"
DUPLICATE = "duplicate"
REASONS = (REPEATED, "empty side", "too long", "length ratio", DUPLICATE)
"""All reasons, in the order of the checks."""

RATIO_SLACK = 5
"""Extra tokens that the longer side may have above the allowed ratio, because short texts vary
more."""

# No tokenizer makes tokens as long as this (SentencePiece's pieces have at most 16 characters), so
# a line with more characters is too long in any case and need not be tokenized.
_CHARACTERS_PER_TOKEN = 64

_NO_HASHES = np.zeros(0, np.uint64)

CHUNKS_A_SHARD = 100
"""The number of text chunks in a shard, which together have a million pairs."""


class LeftOut(NamedTuple):
    """A pair left out of training: the file and line of its source side, and the reason."""

    file: str
    line: int
    reason: str


class FilterJob(NamedTuple):
    """A chunk of pairs to tokenize and filter."""

    first: int
    """The row of the first pair."""
    source: list[str]
    target: list[str]
    held: list[int]
    """The rows that are held out or not used."""
    repeats: list[int]
    """The rows that repeat a validation pair."""


class Encoded(NamedTuple):
    """Tokenized training pairs as flat arrays, and the pairs that were left out."""

    source_ids: np.ndarray
    """The source ids of all kept pairs, concatenated."""
    source_ends: np.ndarray
    """The offset in `source_ids` after each kept pair."""
    target_ids: np.ndarray
    target_ends: np.ndarray
    rows: np.ndarray
    """The sorted rows of the kept pairs."""
    hashes: np.ndarray
    """A 64-bit hash of each kept pair if duplicates are dropped; otherwise empty."""
    left_rows: np.ndarray
    """The sorted rows of the pairs left out."""
    left_reasons: np.ndarray
    """The reason for each pair left out, as an index in `REASONS`."""


@dataclass(frozen=True)
class Kept:
    """The training pairs, and the pairs that were left out."""

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
        return _counts(self.encoded.left_reasons)


def keep_pairs(
    text: Text,
    config: DataConfig,
    source: Tokenizer,
    target: Tokenizer,
    held: HeldOut = NOTHING,
) -> Kept:
    """Tokenize the training pairs in memory, and leave out unsuitable ones.

    Held-out pairs are not kept, and pairs that repeat them are left out. So are pairs with one of
    these properties, ignoring white space around a side:

    - Empty side: one side has no text.
    - Too long: one side has more than `max_length` tokens.
    - Length ratio: one side has more than `max_ratio` times the tokens of the other, plus
      `RATIO_SLACK`.
    - Duplicate, if `drop_duplicates`: both sides repeat an earlier kept pair, ignoring surrounding
      white space and the Unicode form.

    Duplicates are found by 64 bits of BLAKE2b. The probability that one of n pairs is wrongly taken
    for a duplicate is n^2 / 2^65: less than one in a million for 5 million pairs.
    """
    encoded = (encode(task, config, source, target) for task in tasks(text, held))
    shards = list(continued(sharded(encoded, config.drop_duplicates)))
    whole = Encoded(*map(np.concatenate, zip(*shards, strict=True)))
    kept = Kept(text, whole, examples_of(whole).sha256())
    require_some(kept)
    return kept


def require_some(kept: Kept) -> None:
    """Raise `DataError` if no pair is left."""
    if not len(kept.encoded.rows):
        raise _nothing_left("no pair is left to train on", kept.encoded.left_reasons)


def _nothing_left(what: str, reasons: np.ndarray) -> DataError:
    """Return the error for pairs that were all left out, with the number for each reason."""
    found = ", ".join(f"{reason}: {count}" for reason, count in _counts(reasons).items() if count)
    only_repeats = (reasons == REASONS.index(REPEATED)).all()
    advice = "validate on other pairs" if only_repeats else "see data.max_length and max_ratio"
    return DataError(f"{what} ({found}); {advice}")


def _counts(reasons: np.ndarray) -> dict[str, int]:
    """Return the number of pairs for each reason, in the order of `REASONS`."""
    counts = np.bincount(reasons, minlength=len(REASONS))
    return dict(zip(REASONS, counts.tolist(), strict=True))


def examples_of(encoded: Encoded) -> Examples:
    """Return the kept pairs as examples."""
    return Examples(
        Side(encoded.source_ids, encoded.source_ends), Side(encoded.target_ids, encoded.target_ends)
    )


def tasks(text: Text, held: HeldOut) -> Iterator[FilterJob]:
    """Yield the chunks of a text as jobs to tokenize."""
    end = 0
    for first, sides in numbered(text):
        end = first + len(sides[0])
        rows = (within(each, first, end) for each in (held.excluded, held.repeats))
        yield FilterJob(first, *sides, *rows)
    if end != len(text):
        raise DataError(
            f"the text changed while it was read: it had {len(text)} pairs and now has {end}; "
            "start again"
        )


def encode(task: FilterJob, config: DataConfig, source: Tokenizer, target: Tokenizer) -> Encoded:
    """Tokenize and filter a chunk of pairs. The result depends only on the arguments."""
    held, repeats = set(task.held), set(task.repeats)
    kept: list[tuple[int, Sequence[int], Sequence[int]]] = []
    left: list[tuple[int, int]] = []
    hashes: list[int] = []
    sources, targets = _encode(task.source, config, source), _encode(task.target, config, target)
    for place, ids in enumerate(zip(sources, targets, strict=True)):
        row, pair = task.first + place, stripped((task.source[place], task.target[place]))
        if row in held:
            continue
        reason = REPEATED if row in repeats else _reason(pair, *ids, config)
        if reason is not None:
            left.append((row, REASONS.index(reason)))
            continue
        kept.append((row, *ids))
        if config.drop_duplicates:
            hashes.append(pair_hash(comparable(pair)))
    return Encoded(
        *flat([ids for _, ids, _ in kept], _type_of_ids(source)),
        *flat([ids for _, _, ids in kept], _type_of_ids(target)),
        np.array([row for row, _, _ in kept], np.int64),
        np.array(hashes, np.uint64),
        np.array([row for row, _ in left], np.int64),
        np.array([reason for _, reason in left], np.uint8),
    )


def sharded(
    encoded: Iterator[Encoded], drop_duplicates: bool, known: np.ndarray = _NO_HASHES
) -> Iterator[Encoded]:
    """Yield the tokenized chunks joined to shards, without duplicates if these are dropped."""
    while pieces := list(islice(encoded, CHUNKS_A_SHARD)):
        shard = Encoded(*map(np.concatenate, zip(*continued(pieces), strict=True)))
        if drop_duplicates:
            shard = _without_repeats(shard, known)
            known = np.concatenate([known, shard.hashes])
        yield shard


def continued(pieces: Iterable[Encoded], source: int = 0, target: int = 0) -> Iterator[Encoded]:
    """Yield the pieces with ends that count on from so many source ids and target ids."""
    for piece in pieces:
        moved = piece._replace(
            source_ends=piece.source_ends + source, target_ends=piece.target_ends + target
        )
        source += len(piece.source_ids)
        target += len(piece.target_ids)
        yield moved


def write_left_out(path: Path, rows: Sequence[LeftOut]) -> None:
    """Write a TSV file with a header: file, line and reason of each pair left out."""
    _write_rows(path, [LeftOut._fields, *rows])


def write_held_out(path: Path, rows: Sequence[Origin]) -> None:
    """Write a TSV file with a header: file and line of each held-out pair."""
    _write_rows(path, [Origin._fields, *rows])


def read_held_out(path: Path) -> list[int]:
    """Return the lines of the held-out pairs, in the order in which they were written."""
    try:
        rows = path.read_bytes().decode().split("\n")[1:-1]
        return [int(row.rpartition("\t")[2]) for row in rows]
    except (OSError, ValueError):
        return []


def _write_rows(path: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    lines = ["\t".join(map(str, row)) + "\n" for row in rows]
    atomic_write(path, "".join(lines).encode())


def _encode(lines: Sequence[str], config: DataConfig, tokenizer: Tokenizer) -> list[Sequence[int]]:
    """Return the ids of each line, or `max_length` + 1 ids for a line too long to tokenize."""
    bound = _CHARACTERS_PER_TOKEN * config.max_length
    fits = [len(line.strip()) <= bound for line in lines]
    fitting = iter(token_ids(tokenizer, compress(lines, fits)))
    too_many = range(config.max_length + 1)
    # An array of machine integers needs far less memory than a list.
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


def _type_of_ids(tokenizer: Tokenizer) -> Any:
    """Return an integer type that is large enough for the ids of a tokenizer."""
    return np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32


def _without_repeats(shard: Encoded, known: np.ndarray) -> Encoded:
    """Return a shard without pairs that repeat an earlier pair of the shard or a `known` hash."""
    is_first = np.zeros(len(shard.hashes), bool)
    is_first[np.unique(shard.hashes, return_index=True)[1]] = True
    keep = is_first & ~np.isin(shard.hashes, known)
    examples, rows = examples_of(shard), np.flatnonzero(keep)
    source, target = examples.source.some(rows), examples.target.some(rows)
    left = np.concatenate([shard.left_rows, shard.rows[~keep]])
    repeated = np.full(int((~keep).sum()), REASONS.index(DUPLICATE), np.uint8)
    order = np.argsort(left)
    return Encoded(
        source.ids,
        source.ends,
        target.ids,
        target.ends,
        shard.rows[keep],
        shard.hashes[keep],
        left[order],
        np.concatenate([shard.left_reasons, repeated])[order],
    )


class Glance(NamedTuple):
    """The findings of a quick check."""

    warnings: list[str]
    """Warnings about suspect, misaligned and repeated pairs."""
    data_fault: str
    """A clause if half of the training pairs or of the validation pairs have one fault, or "". If
    fewer pairs are wrong, a model learns from the others."""
    suspects: Collection[int] = ()
    """The rows of the text that are suspect, apart from pairs that repeat others."""


def quick_check(text: Text, data: DataConfig, valid: ParallelText | None) -> Glance:
    """Return what the added checks find in the pairs of a run."""
    found = [check(text, data, valid) for check in added("checks").values()]
    return Glance(
        [line for each in found for line in each.warnings],
        next((each.data_fault for each in found if each.data_fault), ""),
        sorted({row for each in found for row in each.suspects}),
    )
