"""The encoder: a stack of self-attention and feed-forward sublayers."""

from collections.abc import Iterable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import AddNorm
from crosshead.layers.feedforward import FeedForward


class EncoderLayer(nn.Module):
    """One layer of the left half of Figure 1 (Vaswani et al. 2017, section 3.1)."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feedforward: FeedForward,
        add_norm: tuple[AddNorm, AddNorm],
    ) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.add_norm_attention, self.add_norm_feedforward = add_norm

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "#B #H #S S"]
    ) -> Float[Tensor, "B S D"]:
        """Attend to all of the source, then think at every position."""
        y = self.add_norm_attention.before(x)
        y = self.attention(y, self.attention.project(y), mask)
        x = self.add_norm_attention.after(x, y)

        y = self.add_norm_feedforward.before(x)
        return self.add_norm_feedforward.after(x, self.feedforward(y))


class Encoder(nn.Module):
    """A stack of encoder layers, and after it `norm`: the identity unless they are pre-norm."""

    def __init__(self, layers: Iterable[EncoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "#B #H #S S"]
    ) -> Float[Tensor, "B S D"]:
        """What the source means, position by position: the memory of the decoder."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
