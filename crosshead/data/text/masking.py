"""Text in which tokens are hidden, for a model that reads from both sides to find.

Devlin et al. 2019 (BERT), section 3.1, task 1: of the tokens of a window 15 % are to be found. Of
these 80 % are hidden behind the mask, 10 % replaced by a token at random, and 10 % left as they
are, so that a model has something to say of tokens that stand there too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from crosshead.data.batching import Batch, Plan
from crosshead.data.text.streams import Windows
from crosshead.vocabulary import MASK, PAD, UNK

SHARE = 0.15
"""The share of tokens to predict; each window has at least one."""

HIDDEN, REPLACED = 0.8, 0.1
"""Shares of the tokens to predict: the mask hides `HIDDEN` of them, and a random ordinary token,
possibly the same one, replaces `REPLACED` of them."""


@dataclass(frozen=True)
class MaskedWindows:
    """An epoch of windows with tokens to be found; which ones is drawn anew in each epoch.

    A function of `drawn` and the row: a run that goes on hides what it would have hidden. Where
    `all_hidden`, what is to be found all stands behind the mask, which is how models are judged.
    """

    windows: Windows
    vocabulary: int
    drawn: tuple[int, ...]
    all_hidden: bool = False
    row, bound = Windows.row, Windows.bound

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the windows."""
        return self.windows.lengths

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the plan of the windows."""
        return self.windows.plan(max_tokens, seed, epoch)

    def in_order(self, max_tokens: int) -> Plan:
        """All windows, as they stand in the text."""
        return self.windows.in_order(max_tokens)

    def collate(self, rows: Sequence[int]) -> Batch:
        """Some windows with tokens hidden, and these tokens where they belong: else padding."""
        tokens = self.windows.collate(rows).target_output.numpy()
        lengths = (tokens != PAD).sum(axis=1).tolist()
        wanted = np.full_like(tokens, PAD)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            rng = np.random.default_rng([*self.drawn, row])
            chosen = rng.permutation(length)[: max(1, round(SHARE * length))]
            wanted[place, chosen] = tokens[place, chosen]
            others = rng.integers(UNK + 1, self.vocabulary, len(chosen))
            fate = rng.random(len(chosen))
            hidden = (fate < HIDDEN) | self.all_hidden
            replaced = ~hidden & (fate < HIDDEN + REPLACED)
            tokens[place, chosen[hidden]] = MASK
            tokens[place, chosen[replaced]] = others[replaced]
        return Batch((torch.from_numpy(tokens),), torch.from_numpy(wanted))

    def extent(self, row: int) -> str:
        """Return the number of tokens of a window."""
        return self.windows.extent(row)
