"""Pairs of sequences of ids to copy or to reverse: tasks that a model learns in seconds."""

import random
from collections.abc import Iterator

from crosshead.vocabulary import UNK

Ids = list[int]


def copy_task(n: int, vocabulary: int, max_length: int, seed: int) -> list[tuple[Ids, Ids]]:
    """Pairs of equal sequences, without special pieces, which are ids 0 to 3.

    Lengths are uniform in 1..`max_length` and ids in 4..`vocabulary` - 1.
    """
    return [(ids, list(ids)) for ids in _sequences(n, vocabulary, max_length, seed)]


def reverse_task(n: int, vocabulary: int, max_length: int, seed: int) -> list[tuple[Ids, Ids]]:
    """Pairs of a sequence and its reverse, drawn as in `copy_task`."""
    return [(ids, ids[::-1]) for ids in _sequences(n, vocabulary, max_length, seed)]


def _sequences(n: int, vocabulary: int, max_length: int, seed: int) -> Iterator[Ids]:
    rng = random.Random(seed)
    for _ in range(n):
        yield [rng.randrange(UNK + 1, vocabulary) for _ in range(rng.randint(1, max_length))]
