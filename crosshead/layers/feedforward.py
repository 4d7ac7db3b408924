"""The position-wise feed-forward network."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu_,  # in place, because nothing else reads its input
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # Hendrycks and Gimpel 2016; used by GPT-2
    "swish": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2.

    Matrices start Glorot-uniform, and biases zero.

    Reference:
        Vaswani et al. 2017, section 3.3, Eq. 2.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        output_gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for layer, gain in ((self.inner, 1.0), (self.outer, output_gain)):
            nn.init.xavier_uniform_(layer.weight, gain=gain)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Apply the same two-layer network at every position."""
        return self.outer(self.dropout(self.activation(self.inner(x))))
