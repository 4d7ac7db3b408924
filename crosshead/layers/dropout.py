"""Dropout as a layer."""

from jaxtyping import Shaped
from torch import Tensor, nn

from crosshead.attention.dropout import check_share, dropout


class Dropout(nn.Module):
    """A module that sets a share `p` of the elements to zero in training.

    `p` is 0 or from 1/256 to 255/256 (`ValueError`).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        check_share(p)
        self.p = p

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """`x`, thinned out while training."""
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        """The share, for `print(model)`."""
        return f"p={self.p}"
