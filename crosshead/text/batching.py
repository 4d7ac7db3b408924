"""Batches by a token budget: which pairs share a batch, in which order, and as which tensors.

A plan is a list of arrays of row numbers, one array per batch. It is a pure function of its
arguments: the same lengths, seed and epoch give the same plan on every machine. Lengths are
(source, target) pairs and count the tokens that `collate` adds: the end of the source, and either
the start or the end of the target.

Axes: `B` sentences, `S` source positions, `T` target positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn import functional as F

from crosshead.errors import DataError
from crosshead.layers.loss import IGNORED
from crosshead.text.parallel.examples import Example, Measured
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.vocabulary import BOS, EOS, PAD

__all__ = [
    "Batch",
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
    """Padded tensors of several examples, for teacher forcing."""

    inputs: tuple[Shaped[Tensor, "B ..."], ...]
    """Inputs of the model. For pairs: source ids, EOS, padding; and the start token, target ids,
    padding. For monolingual text: its ids alone. Images stand before them."""

    target_output: Int[Tensor, "B T"]
    """The token to predict at each position, and padding elsewhere. Targets of pairs end in EOS."""

    alignment: Float[Tensor, "B T S"] | None = None
    """The probability that each target token translates each source token, for guided alignment."""

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
        """The number of target positions without padding, which are the predictions in the loss."""
        return int((self.target_output != PAD).sum())

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device.

        Args:
            device: The device.
        """
        return self.with_each(lambda tensor: tensor.to(device))

    def predictions(
        self, hidden: Float[Tensor, "*V B T D"]
    ) -> tuple[Float[Tensor, "*V N D"], Int[Tensor, " N"]]:
        """Return the hidden states and the targets of the positions to predict.

        Args:
            hidden: Hidden states of all positions, "B T D", or of several views.

        Returns:
            Hidden states, "N D" or "V N D", and the ids of the target tokens, "N".
        """
        tokens = self.target_output != PAD
        return hidden[..., tokens, :], self.target_output[tokens]

    def rounded(self) -> "RoundedBatch":
        """Return the batch with padding up to sizes that many batches share.

        Each size becomes the next number of at most `_DIGITS` binary digits and zeros.
        """
        return RoundedBatch(**vars(self.with_each(_rounded)), counted=self.count)

    def with_each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the batch with each tensor changed.

        Args:
            change: Returns a tensor in place of a tensor.
        """
        return replace(
            self,
            inputs=tuple(map(change, self.inputs)),
            target_output=change(self.target_output),
            alignment=None if self.alignment is None else change(self.alignment),
        )


@dataclass(frozen=True)
class RoundedBatch(Batch):
    """A batch whose loss is computed by operations that depend on the shapes of its tensors alone.

    Padding is among its predictions, as targets that add nothing.
    """

    counted: int = field(kw_only=True)
    """The result of `count`, which reads no tensor."""

    @property
    def count(self) -> int:
        """The number of target positions without padding."""
        return self.counted

    @property
    def shape(self) -> tuple[torch.Size, ...]:
        """The shapes of all tensors."""
        return tuple(each.shape for each in self.tensors)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors."""
        further = () if self.alignment is None else (self.alignment,)
        return *self.inputs, self.target_output, *further

    def predictions(
        self, hidden: Float[Tensor, "*V B T D"]
    ) -> tuple[Float[Tensor, "*V N D"], Int[Tensor, " N"]]:
        """Return the hidden states and the targets of all positions."""
        target = self.target_output.masked_fill(self.target_output == PAD, IGNORED)
        return hidden.flatten(-3, -2), target.flatten()


_DIGITS = 4
"""With four digits, Multi30k in batches of 4,096 tokens has 68 shapes and 5 % more padding."""


def _rounded(tensor: Tensor) -> Tensor:
    """Return the tensor with padding at the end of each axis, up to a rounded size."""
    spare = [_next_round(size) - size for size in tensor.shape]
    return F.pad(tensor, [part for each in reversed(spare) for part in (0, each)], value=PAD)


def _next_round(size: int) -> int:
    """Return the next number of at most `_DIGITS` binary digits and zeros."""
    zeros = max(0, size.bit_length() - _DIGITS)
    return -(-size >> zeros) << zeros


@dataclass(frozen=True)
class Pairs:
    """An epoch of pairs."""

    examples: Sequence[Example]
    start: int = BOS
    """The first token of every target."""
    aligner: WordAligner | None = None
    """The alignments that batches get, or None without guided alignment."""

    row, bound = "pair", "data.max_length"

    @property
    def lengths(self) -> np.ndarray:
        """The result of `example_lengths`."""
        return example_lengths(self.examples)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the plan that `plan_batches` makes from the lengths of the pairs."""
        return plan_batches(self.lengths, max_tokens, seed, epoch)

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return the given pairs as a batch, made by `collate`, and their alignments."""
        batch = collate(self.examples, rows, self.start)
        if self.aligner is None:
            return batch
        found = self.aligner.align(batch.source.numpy(), batch.target_output.numpy())
        return replace(batch, alignment=torch.from_numpy(found))

    def extent(self, row: int) -> str:
        """Return the number of tokens of both sides, for messages."""
        source, target = map(len, self.examples[row])
        return f"{source:,} and {target:,} tokens"


# The random spread, in tokens, of the shorter sides of neighbours. A larger spread mixes the
# batches of successive epochs better and pads more. At 2 the padding of Multi30k is 5 %.
_JITTER = 2.0


def example_lengths(examples: Sequence[Example]) -> np.ndarray:
    """Return the (source, target) lengths of examples, an `n 2` array.

    The lengths count the tokens that `collate` adds.

    Args:
        examples: The examples, pairs of source and target ids.
    """
    if isinstance(examples, Measured):
        return examples.lengths + 1
    flat = chain.from_iterable((len(source), len(target)) for source, target in examples)
    return np.fromiter(flat, np.int64, 2 * len(examples)).reshape(-1, 2) + 1


def plan_batches(lengths: np.ndarray, max_tokens: int, seed: int, epoch: int) -> Plan:
    """Return the batches of one epoch of training.

    Pairs of similar length share a batch. Which pairs share one, and the order of the batches, is
    drawn anew from (seed, epoch).

    Args:
        lengths: Tokens of source and target, an `n 2` array from `example_lengths`.
        max_tokens: The budget of a batch: `rows * max(S, T) <= max_tokens`, padding included.
        seed: The random seed of the run.
        epoch: The number of the epoch.

    Returns:
        The row numbers of each batch.

    Raises:
        DataError: If a single pair is longer than the budget.
    """
    _require_fit(lengths, max_tokens)
    rng = np.random.default_rng([seed, epoch])
    order = _by_length(lengths, rng.uniform(-_JITTER, _JITTER, len(lengths)))
    # A first batch of a random size moves all the boundaries behind it.
    first = int(rng.integers(1, 1 + max(1, max_tokens // int(lengths.max(initial=1)))))
    plan = [*_cut(lengths, order[:first], max_tokens), *_cut(lengths, order[first:], max_tokens)]
    return [plan[index] for index in rng.permutation(len(plan))]


def plan_in_order(lengths: np.ndarray, max_tokens: int) -> Plan:
    """Return the batches of validation, translation and scoring, with the shortest pairs first.

    The plan is not random and contains every pair. A pair that exceeds the budget alone is a batch
    of its own.

    Args:
        lengths: Tokens of source and target, an `n 2` array from `example_lengths`.
        max_tokens: The budget of a batch, padding included.
    """
    order = _by_length(lengths, np.zeros(len(lengths)))
    return list(_cut(lengths, order, max_tokens))


def collate(examples: Sequence[Example], rows: Sequence[int], start: int = BOS) -> Batch:
    """Return some examples as one padded batch.

    Args:
        examples: All examples.
        rows: The row numbers of the examples in the batch.
        start: The token that every target input begins with.
    """
    chosen = [examples[row] for row in rows]  # read once: sampling may draw an example at each read
    source = _padded([pair[0] for pair in chosen])
    target_output = _padded([pair[1] for pair in chosen])
    target_input = np.empty_like(target_output)
    target_input[:, 0] = start
    target_input[:, 1:] = target_output[:, :-1]
    target_input[:, 1:][target_output[:, 1:] == PAD] = PAD  # EOS belongs to the output only
    inputs = torch.from_numpy(source), torch.from_numpy(target_input)
    return Batch(inputs, torch.from_numpy(target_output))


def padding_share(lengths: np.ndarray, plan: Plan) -> float:
    """Return the share of padding, from 0 to 1, in all batches of a plan, both sides together.

    Args:
        lengths: Tokens of source and target, an `n 2` array from `example_lengths`.
        plan: The rows of each batch.
    """
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
            f"({max_tokens}); increase the tokens per batch or lower data.max_length"
        )


def _by_length(lengths: np.ndarray, jitter: np.ndarray) -> np.ndarray:
    """Return the rows sorted by the longer side, then by target length minus source length.

    `jitter` moves the second key. This key rises where the longer side is even and falls where it
    is odd, so that the end of one group resembles the beginning of the next.
    """
    longest = lengths.max(axis=1)
    excess = lengths[:, 1] - lengths[:, 0]
    return np.lexsort((np.where(longest % 2 == 0, excess, -excess) + jitter, longest))


def _cut(lengths: np.ndarray, order: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Cut sorted rows into batches, each as large as the budget allows."""
    longest = np.maximum.accumulate(lengths[order].max(axis=1)) if len(order) else order
    first = 0
    while first < len(order):
        # `cost` rises along the window, because rows are sorted by length.
        window = longest[first : first + max(1, max_tokens // int(longest[first]))]
        cost = window * np.arange(1, len(window) + 1)
        last = first + max(1, int(np.searchsorted(cost, max_tokens, side="right")))
        yield order[first:last]
        first = last


def _padded(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the sequences as rows of an array, each followed by EOS and padding."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    flat = np.fromiter(chain.from_iterable(sequences), np.int64, int(lengths.sum()))
    padded = np.full((len(sequences), int(lengths.max()) + 1), PAD, np.int64)
    columns = np.arange(padded.shape[1])
    padded[columns < lengths[:, None]] = flat
    padded[np.arange(len(sequences)), lengths] = EOS
    return padded


class EqualRows(ABC):
    """An epoch of rows of one length."""

    row: str
    """The noun for a row."""
    bound: str
    """The key of the recipe that bounds the length of a row."""
    units: str
    """The noun for what `train.batch_tokens` counts."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The length of a row, in `units`."""

    @abstractmethod
    def extent(self, row: int) -> str:
        """Return the size of a row, for messages."""

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, "N 1"."""
        return np.full((len(self), 1), self.length)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the rows of each batch, in an order drawn from (seed, epoch)."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all rows in order, in batches of at most `max_tokens`."""
        return self._cut(np.arange(len(self)), max_tokens)

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        size = max_tokens // self.length
        if size < 1:
            raise DataError(
                f"each {self.row} of {self.extent(0)} has {self.length:,} {self.units}, more than "
                f"the {max_tokens:,} of train.batch_tokens; raise it, or lower {self.bound}"
            )
        return np.split(order, range(size, len(order), size))
