"""Encoded sources during decoding: each sentence once, shared by all its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.attention.kv_cache import KeyValues


@dataclass(frozen=True)
class SentenceMemory:
    """The projected memory of `B` sentences for `N` rows, sentence by sentence.

    The rows of a sentence query its memory together, as further query positions.

    Attributes:
        layers: The keys and values that each layer attends to; one entry if all layers share it.
        mask: The padding mask of the sources, "B 1 1 S".
        rows_per_sentence: Number of rows of each sentence.
    """

    layers: Sequence[KeyValues]
    mask: Bool[Tensor, "B 1 1 S"]
    rows_per_sentence: int = 1

    def select(self, rows: Int[Tensor, " M"]) -> "SentenceMemory":
        """Return the memory of the chosen rows.

        Rows share the memory of their sentence as long as every sentence keeps the same number of
        rows, side by side. Otherwise every row gets a copy.
        """
        if not rows.numel():
            raise ValueError("no row is chosen; keep at least one row, or stop decoding")
        sentences = rows // self.rows_per_sentence
        if torch.equal(sentences, self._sentences):
            return self
        kept, counts = torch.unique_consecutive(sentences, return_counts=True)
        if bool((counts == counts[0]).all()):
            rows_per_sentence = int(counts[0])
        else:
            kept, rows_per_sentence = sentences, 1
        everyone = torch.arange(self.mask.shape[0], device=kept.device)
        if torch.equal(kept, everyone):
            return SentenceMemory(self.layers, self.mask, rows_per_sentence)
        layers = [KeyValues(keys[kept], values[kept]) for keys, values in self.layers]
        return SentenceMemory(layers, self.mask[kept], rows_per_sentence)

    def join(self, other: "SentenceMemory") -> "SentenceMemory":
        """Return the memory of these sentences, and then those of another memory.

        Sources get padding up to the longest one of both. Padding beyond it is dropped. If the
        sentences of the two have different numbers of rows, every row gets a copy.
        """
        if self.rows_per_sentence != other.rows_per_sentence:
            return self._apart().join(other._apart())
        longest = max(_longest(part.mask) for part in (self, other))
        layers = [
            KeyValues(*(_stacked(pair, longest, axis=2) for pair in zip(mine, new, strict=True)))
            for mine, new in zip(self.layers, other.layers, strict=True)
        ]
        mask = _stacked((self.mask, other.mask), longest, axis=3)
        return SentenceMemory(layers, mask, self.rows_per_sentence)

    def _apart(self) -> "SentenceMemory":
        """Return the memory with a copy for every row."""

        def copies(part: Tensor) -> Tensor:
            return part.repeat_interleave(self.rows_per_sentence, dim=0)

        layers = [KeyValues(*(copies(part) for part in layer)) for layer in self.layers]
        return SentenceMemory(layers, copies(self.mask))

    @cached_property
    def seen(self) -> Bool[Tensor, "B 1 1 S"] | None:
        """The mask, or None without padding."""
        return None if bool(self.mask.all()) else self.mask

    @cached_property
    def _sentences(self) -> Int[Tensor, " N"]:
        """The sentence of each row."""
        sentences = torch.arange(len(self.mask), device=self.mask.device)
        return sentences.repeat_interleave(self.rows_per_sentence)

    @property
    def nbytes(self) -> int:
        """The size of keys, values and mask in bytes; a tensor that is both counts once."""
        tensors = [self.mask, *(part for layer in self.layers for part in layer)]
        return sum({part.data_ptr(): part.nbytes for part in tensors}.values())


def _longest(mask: Bool[Tensor, "B 1 1 S"]) -> int:
    """Return the length of the longest source, 1 or more."""
    columns = mask.any(dim=0).flatten().nonzero()
    return int(columns[-1]) + 1 if len(columns) else 1


def _stacked(parts: tuple[Tensor, Tensor], length: int, axis: int) -> Tensor:
    """Stack two tensors, cut or filled up with zeros to a length along an axis."""
    shape = list(parts[0].shape)
    shape[0], shape[axis] = sum(part.shape[0] for part in parts), length
    stacked = parts[0].new_zeros(shape)
    first = 0
    for part in parts:
        kept = part.narrow(axis, 0, min(length, part.shape[axis]))
        stacked[first : first + len(part)].narrow(axis, 0, kept.shape[axis]).copy_(kept)
        first += len(part)
    return stacked
