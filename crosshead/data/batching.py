"""Batches by a budget of tokens: which pairs go together, in which order, and as which tensors.

A plan is a list of arrays of row numbers, a batch each, and a pure function of its arguments: with
the same lengths, seed and epoch the same plan comes out on every machine. Lengths are pairs of
(source, target) that count what `collate` adds: the end of the source, and either the start or the
end of the target.

Axes: `B` sentences, `S` source positions, `T` target positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from crosshead.data.parallel.examples import Example, Measured
from crosshead.errors import DataError
from crosshead.vocabulary import BOS, EOS, PAD

__all__ = [
    "Batch",
    "Epoch",
    "Example",
    "Pairs",
    "Plan",
    "collate",
    "example_lengths",
    "padding_share",
    "plan_batches",
    "plan_in_order",
]

Plan = list[np.ndarray]
"""The row numbers of each batch."""


@dataclass(frozen=True)
class Batch:
    """Some examples as padded tensors, for teacher forcing."""

    inputs: tuple[Int[Tensor, "B _"], ...]
    """Inputs of the model. For pairs: source ids, EOS, padding; and the start token, target ids,
    padding. For monolingual text: its ids alone."""

    target_output: Int[Tensor, "B T"]
    """At each position the token that follows the last input's; EOS, then padding, behind pairs."""

    @property
    def source(self) -> Int[Tensor, "B S"]:
        """The sources of pairs."""
        return self.inputs[0]

    @property
    def target_input(self) -> Int[Tensor, "B T"]:
        """The target shifted right: the input before each output token."""
        return self.inputs[-1]

    @property
    def count(self) -> int:
        """The number of target positions without padding: the predictions that the loss counts."""
        return int((self.target_output != PAD).sum())

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        return Batch(tuple(each.to(device) for each in self.inputs), self.target_output.to(device))


class Epoch(Protocol):
    """The training rows of one epoch, grouped into batches, each made when it is needed."""

    row: str
    """Noun for a row, in messages."""
    bound: str
    """The setting that bounds the length of a row."""

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of every row, side by side: of source and target, or of text by itself."""
        ...

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """The rows of each batch, of so many tokens at most: a function of (seed, epoch)."""
        ...

    def collate(self, rows: Sequence[int]) -> Batch:
        """Some rows as a batch."""
        ...

    def extent(self, row: int) -> str:
        """Return the length of a row, for messages."""
        ...


@dataclass(frozen=True)
class Pairs:
    """An epoch of pairs; `start` is the token that a target begins with."""

    examples: Sequence[Example]
    start: int = BOS
    row, bound = "pair", "data.max_length"

    @property
    def lengths(self) -> np.ndarray:
        """The result of `example_lengths`."""
        return example_lengths(self.examples)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """`plan_batches` by the lengths of the pairs."""
        return plan_batches(self.lengths, max_tokens, seed, epoch)

    def collate(self, rows: Sequence[int]) -> Batch:
        """`collate` some of the pairs."""
        return collate(self.examples, rows, self.start)

    def extent(self, row: int) -> str:
        """The tokens of both sides."""
        source, target = map(len, self.examples[row])
        return f"{source:,} and {target:,} tokens"


# How far, in tokens, the shorter sides of neighbours may differ by chance. More of it mixes the
# batches of successive epochs better and pads more; at 2 the padding of Multi30k is 5 %.
_JITTER = 2.0


def example_lengths(examples: Sequence[Example]) -> np.ndarray:
    """The (source, target) lengths of examples, an `n 2` array, with what `collate` adds."""
    if isinstance(examples, Measured):
        return examples.lengths + 1
    flat = chain.from_iterable((len(source), len(target)) for source, target in examples)
    return np.fromiter(flat, np.int64, 2 * len(examples)).reshape(-1, 2) + 1


def plan_batches(lengths: np.ndarray, max_tokens: int, seed: int, epoch: int) -> Plan:
    """The batches of an epoch of training.

    Pairs of like length go together, so that `rows * max(S, T) <= max_tokens`, padding counted.
    Which of them, and the order of the batches, is drawn anew from (seed, epoch).

    Raises `DataError` for a pair that is longer than the budget by itself.
    """
    _require_fit(lengths, max_tokens)
    rng = np.random.default_rng([seed, epoch])
    order = _by_length(lengths, rng.uniform(-_JITTER, _JITTER, len(lengths)))
    # A first batch of a random size moves all the boundaries behind it.
    first = int(rng.integers(1, 1 + max(1, max_tokens // int(lengths.max(initial=1)))))
    plan = [*_cut(lengths, order[:first], max_tokens), *_cut(lengths, order[first:], max_tokens)]
    return [plan[index] for index in rng.permutation(len(plan))]


def plan_in_order(lengths: np.ndarray, max_tokens: int) -> Plan:
    """The batches of validation, translation and scoring: the shortest pairs first.

    Nothing is drawn at random or left out: a pair that is longer than the budget by itself is a
    batch of its own.
    """
    order = _by_length(lengths, np.zeros(len(lengths)))
    return list(_cut(lengths, order, max_tokens))


def collate(examples: Sequence[Example], rows: Sequence[int], start: int = BOS) -> Batch:
    """The examples `rows` as one padded batch; `start` is the token the target begins with."""
    chosen = [examples[row] for row in rows]  # once each: it may be drawn when it is asked for
    source = _padded([pair[0] for pair in chosen])
    target_output = _padded([pair[1] for pair in chosen])
    target_input = np.empty_like(target_output)
    target_input[:, 0] = start
    target_input[:, 1:] = target_output[:, :-1]
    target_input[:, 1:][target_output[:, 1:] == PAD] = PAD  # EOS belongs to the output only
    inputs = torch.from_numpy(source), torch.from_numpy(target_input)
    return Batch(inputs, torch.from_numpy(target_output))


def padding_share(lengths: np.ndarray, plan: Plan) -> float:
    """The share of padding in all cells of a plan's batches, source and target together."""
    cells = sum(len(rows) * int(lengths[rows].max(axis=0).sum()) for rows in plan)
    tokens = sum(int(lengths[rows].sum()) for rows in plan)
    return 1 - tokens / cells if cells else 0.0


def _require_fit(lengths: np.ndarray, max_tokens: int) -> None:
    longest = lengths.max(axis=1)
    too_long = np.flatnonzero(longest > max_tokens)
    if len(too_long):
        row = int(too_long[0])
        raise DataError(
            f"pair {row} (counted from 0) has {longest[row]} tokens, more than a batch may hold "
            f"({max_tokens}); raise the batch's tokens or lower data.max_length"
        )


def _by_length(lengths: np.ndarray, jitter: np.ndarray) -> np.ndarray:
    """The rows sorted by the longer side, then by how much longer the target is, give or take.

    The second key runs up where the first is even and down where it is odd, so that the end of
    one length meets its like at the beginning of the next.
    """
    longest = lengths.max(axis=1)
    excess = lengths[:, 1] - lengths[:, 0]
    return np.lexsort((np.where(longest % 2 == 0, excess, -excess) + jitter, longest))


def _cut(lengths: np.ndarray, order: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Cut sorted rows into batches, each as large as the budget allows."""
    longest = np.maximum.accumulate(lengths[order].max(axis=1)) if len(order) else order
    first = 0
    while first < len(order):
        # The batch can only shrink as longer rows come in: `cost` rises along the window.
        window = longest[first : first + max(1, max_tokens // int(longest[first]))]
        cost = window * np.arange(1, len(window) + 1)
        last = first + max(1, int(np.searchsorted(cost, max_tokens, side="right")))
        yield order[first:last]
        first = last


def _padded(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """The sequences, each with EOS behind it, as the rows of an array filled up with padding."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    flat = np.fromiter(chain.from_iterable(sequences), np.int64, int(lengths.sum()))
    padded = np.full((len(sequences), int(lengths.max()) + 1), PAD, np.int64)
    columns = np.arange(padded.shape[1])
    padded[columns < lengths[:, None]] = flat
    padded[np.arange(len(sequences)), lengths] = EOS
    return padded
