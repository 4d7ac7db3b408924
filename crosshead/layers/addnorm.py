"""The residual connection around every sublayer, with layer normalisation after or before it.

A sublayer is wrapped as `x = add_norm.after(x, sublayer(add_norm.before(x)))`.
"""

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.dropout import Dropout


class PostNorm(nn.Module):
    """The paper's residual connection: LayerNorm(x + Dropout(Sublayer(x))).

    Reference:
        Vaswani et al. 2017, sections 3.1 and 5.4.
    """

    def __init__(self, d_model: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the sublayer's input: the residual stream itself."""
        return x

    def after(self, x: Float[Tensor, "*B D"], y: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Add the output of the sublayer to the residual stream, and normalise the sum."""
        return self.norm(x + self.dropout(y))


class PreNorm(nn.Module):
    """The pre-norm residual connection: x + Dropout(Sublayer(LayerNorm(x))).

    It trains at any depth. A stack of pre-norm layers ends with a norm.

    Reference:
        Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", Figure 1b.
    """

    def __init__(self, d_model: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = Dropout(dropout)

    def before(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the sublayer's input: the normalised residual stream."""
        return self.norm(x)

    def after(self, x: Float[Tensor, "*B D"], y: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Add the output of the sublayer to the residual stream."""
        return x + self.dropout(y)


AddNorm = PostNorm | PreNorm

ADD_NORM: dict[str, type[AddNorm]] = {"post": PostNorm, "pre": PreNorm}
