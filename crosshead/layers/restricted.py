"""An output projection that never predicts some tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ABSENT = -1000.0
"""The output bias of a token that a model never predicts: its probability is zero. It is small
enough for label smoothing, which adds a share of it to the loss."""


class RestrictedProjection(nn.Linear):
    """An output projection without a trained bias that never predicts some tokens.

    An imported model lacks some of the control tokens that every vocabulary here has. The bias is
    computed from their ids, so nothing of it is stored or trained.
    """

    def __init__(self, weight: nn.Parameter, absent: Sequence[int]) -> None:
        nn.Module.__init__(self)  # `nn.Linear` would make a matrix and a bias of its own
        self.out_features, self.in_features = weight.shape
        if not all(0 <= each < self.out_features for each in absent):
            raise ValueError(f"absent ids {list(absent)} do not fit {self.out_features} tokens")
        self.weight = weight
        self.absent = list(absent)

    @property
    def bias(self) -> Tensor:  # type: ignore[override]
        """The bias, "V": `ABSENT` for the tokens that are never predicted, else zero."""
        rows = torch.tensor(self.absent, device=self.weight.device)
        return self.weight.new_zeros(self.out_features).index_fill(0, rows, ABSENT)
