"""Encoded sources during decoding: each sentence once, shared by all rows that continue it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from crosshead.attention.cache import KeyValues


@dataclass(frozen=True)
class SentenceMemory:
    """Projected memory of `B` sentences for `N` rows: equally many a sentence, side by side.

    A layer lets the rows of a sentence query its memory together, as further query positions.
    """

    layers: Sequence[KeyValues]
    """The keys and values that each layer attends to; a single one where all attend to the same."""
    mask: Bool[Tensor, "B 1 1 S"]
    """True where there is a source position; padding is not."""
    rows_per_sentence: int = 1

    def select(self, rows: Int[Tensor, " M"]) -> "SentenceMemory":
        """The memory of rows of which number i continues row `rows[i]`.

        As long as every sentence keeps equally many rows, side by side, its memory is shared by
        them; otherwise every row gets a copy. Raises `ValueError` where no row is left.
        """
        if not rows.numel():
            raise ValueError("a state keeps at least one row; stop decoding where none is left")
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
