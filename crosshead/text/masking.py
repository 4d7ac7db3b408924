"""Masked text for training a masked language model.

Devlin et al. 2019 (BERT), section 3.1, task 1: 15 % of the tokens of a window are to be predicted.
Of these, 80 % are replaced by the mask, 10 % by a random token, and 10 % stay unchanged, so that a
model also learns to represent tokens that are visible.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from crosshead.text.batching import Batch
from crosshead.text.streams import Windows
from crosshead.vocabulary import MASK, PAD, UNK

SHARE = 0.15
"""The share of tokens to predict; each window has at least one."""

HIDDEN, REPLACED = 0.8, 0.1
"""Shares of the tokens to predict: the mask hides `HIDDEN` of them, and a random ordinary token,
possibly the same one, replaces `REPLACED` of them."""


@dataclass(frozen=True)
class MaskedWindows(Windows):
    """An epoch of windows with masked tokens, which are drawn anew in each epoch.

    The masked tokens are a function of `drawn` and the row, so that a resumed run masks the same
    tokens. If `all_hidden`, all tokens to predict are replaced by the mask. Models are validated in
    this way.
    """

    _: KW_ONLY
    vocabulary: int
    drawn: tuple[int, ...]
    all_hidden: bool = False

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return some windows with masked tokens.

        The target output holds the original token at the positions to predict, and padding
        elsewhere.
        """
        tokens = super().collate(rows).target_output.numpy()
        lengths = (tokens != PAD).sum(axis=1).tolist()
        wanted = np.full_like(tokens, PAD)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            rng = np.random.default_rng([*self.drawn, row])
            chosen = rng.permutation(length)[: max(1, round(SHARE * length))]
            wanted[place, chosen] = tokens[place, chosen]
            random_tokens = rng.integers(UNK + 1, self.vocabulary, len(chosen))
            fate = rng.random(len(chosen))
            hidden = (fate < HIDDEN) | self.all_hidden
            replaced = ~hidden & (fate < HIDDEN + REPLACED)
            tokens[place, chosen[hidden]] = MASK
            tokens[place, chosen[replaced]] = random_tokens[replaced]
        return Batch((torch.from_numpy(tokens),), torch.from_numpy(wanted))
