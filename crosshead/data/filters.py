"""What is left out of training, and why. Nothing is left out of translation or evaluation."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosshead.data.corpora import DataConfig, Origin, ParallelText
from crosshead.data.tokenizers import Tokenizer, token_ids
from crosshead.errors import DataError
from crosshead.files import atomic_write

HELD_OUT = "repeats a held-out pair"
REASONS = (HELD_OUT, "empty side", "too long", "length ratio", "duplicate")
"""Every reason there is, in the order in which they are looked for."""

RATIO_SLACK = 5
"""Tokens that the longer side may have over the allowed ratio: short texts vary more."""

# No tokenizer makes so few tokens of so much text (SentencePiece's pieces have at most 16
# characters), so a longer line is too long whatever it says and need not be tokenized.
_CHARACTERS_PER_TOKEN = 64
_CHUNK = 10_000


class LeftOut(NamedTuple):
    """A pair that is not trained on: where its source side stands, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Kept:
    """The pairs that are trained on, their ids (without begin and end), and what was left out."""

    text: ParallelText
    examples: list[tuple[Sequence[int], Sequence[int]]]
    left_out: list[LeftOut]

    def counts(self) -> dict[str, int]:
        """How many pairs were left out for each reason, in the order of `REASONS`."""
        counts = dict.fromkeys(REASONS, 0)
        for row in self.left_out:
            counts[row.reason] += 1
        return counts


def keep_pairs(
    text: ParallelText,
    config: DataConfig,
    source: Tokenizer,
    target: Tokenizer,
    repeats: Sequence[Origin] = (),
) -> Kept:
    """Tokenize the training pairs and leave out those that cannot be learned from.

    `repeats` are those that are not in `text` because they repeat a held-out pair: they are counted
    with what is left out.
    A side is empty when there is nothing but white space in it; a pair is too long when either
    side has more than `max_length` tokens; its ratio is too large when one side has more than
    `max_ratio` times the tokens of the other and `RATIO_SLACK` more; it is a duplicate, when these
    are unwanted, if both sides repeat those of an earlier pair that was kept. White space around a
    side counts for nothing.

    Raises `DataError` where no pair is left.
    """
    rows: list[int] = []
    examples: list[tuple[Sequence[int], Sequence[int]]] = []
    left_out = [LeftOut(*origin, HELD_OUT) for origin in repeats]
    seen: set[tuple[str, str]] = set()
    for first in range(0, len(text), _CHUNK):
        chunk = range(first, min(first + _CHUNK, len(text)))
        source_ids = _encode(text.source[chunk.start : chunk.stop], config, source)
        target_ids = _encode(text.target[chunk.start : chunk.stop], config, target)
        for row, left, right in zip(chunk, source_ids, target_ids, strict=True):
            pair = text.source[row].strip(), text.target[row].strip()
            reason = _reason(pair, left, right, config)
            if reason is None and config.drop_duplicates:
                reason = "duplicate" if pair in seen else None
                seen.add(pair)
            if reason is None:
                rows.append(row)
                examples.append((left, right))
            else:
                left_out.append(LeftOut(*text.origin(row), reason))
    kept = Kept(text.select(rows), examples, left_out)
    if not rows:
        found = ", ".join(f"{reason}: {count}" for reason, count in kept.counts().items() if count)
        raise DataError(f"no pair is left to train on ({found}); see data.max_length and max_ratio")
    return kept


def sample_pairs(
    text: ParallelText,
    config: DataConfig,
    source: Tokenizer,
    target: Tokenizer,
    rng: np.random.Generator,
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """The ids of kept pairs for an epoch of subword sampling, all drawn from `rng`.

    A sampled segmentation is longer than the usual one; where it goes over `max_length`, the usual
    one is taken, so that every kept pair stays within it.
    """
    sources = _sample(text.source, config.max_length, source, rng)
    targets = _sample(text.target, config.max_length, target, rng)
    return list(zip(sources, targets, strict=True))


def write_left_out(path: Path, rows: Sequence[LeftOut]) -> None:
    """Write a TSV with a header: file, line, reason."""
    _write_rows(path, [LeftOut._fields, *rows])


def write_held_out(path: Path, text: ParallelText) -> None:
    """Write a TSV with a header: file and line of each pair of `text`, which is validated on."""
    _write_rows(path, [Origin._fields, *(text.origin(row) for row in range(len(text)))])


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
    """Why a pair, without the white space around it, is left out, or None; duplicates apart."""
    if not all(pair):
        return "empty side"
    shorter, longer = sorted((len(source), len(target)))
    if longer > config.max_length:
        return "too long"
    if longer > config.max_ratio * shorter + RATIO_SLACK:
        return "length ratio"
    return None


def _sample(
    lines: Sequence[str], longest: int, tokenizer: Tokenizer, rng: np.random.Generator
) -> list[Sequence[int]]:
    found: list[Sequence[int]] = []
    for first in range(0, len(lines), _CHUNK):
        chunk = lines[first : first + _CHUNK]
        for line, ids in zip(chunk, token_ids(tokenizer, chunk, rng), strict=True):
            if len(ids) > longest:
                [ids] = token_ids(tokenizer, [line])
            found.append(array("i", ids))
    return found
