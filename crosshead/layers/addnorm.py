"""The residual connection around every sublayer, with layer normalisation after or before it."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.layers.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), (Vaswani et al. 2017, sections 3.1 and 5.4)."""

    def __init__(self, d_model: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        """Both ways around the sublayer, added and normalised."""
        return self.norm(x + self.dropout(sublayer(x)))


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))): trains at any depth; a stack of it ends with a norm.

    Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", Figure 1b.
    """

    def __init__(self, d_model: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Sublayer) -> Float[Tensor, "B T D"]:
        """The sublayer's view of the normalised stream, added to the stream."""
        return x + self.dropout(sublayer(self.norm(x)))


ADD_NORM: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
