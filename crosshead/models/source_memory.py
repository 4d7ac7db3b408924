"""Encoded sources during decoding: each sentence once, shared by all its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

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

        Args:
            rows: Indices of rows, "M".

        Returns:
            The memory, whose row i continues row `rows[i]`.

        Raises:
            ValueError: If no row is chosen.
        """
        if not rows.numel():
            raise ValueError("no row is chosen; keep at least one row, or stop decoding")
        sentences = rows // self.rows_per_sentence
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
