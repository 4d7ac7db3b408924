"""The encoder: a stack of self-attention and feed-forward sublayers."""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.cache import NoPast, Past
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import AddNorm
from crosshead.layers.feedforward import FeedForward

NO_PAST = NoPast()


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
        self, x: Float[Tensor, "B S D"], mask: EvaluatedMask | None, past: Past = NO_PAST
    ) -> Float[Tensor, "B S D"]:
        """Attend to all that `mask` allows, then think at every position.

        `past` adds the positions before these, where the stack reads what it has written itself.
        """
        start, offset = past.length, past.seen
        y, seen = past.extend(x, self.add_norm_attention.before, self.attention.project)
        y = self.attention(y, seen, mask, offset, start)
        x = self.add_norm_attention.after(x, y)

        y = self.add_norm_feedforward.before(x)
        return self.add_norm_feedforward.after(x, self.feedforward(y))


class Encoder(nn.Module):
    """A stack of encoder layers, and after it `norm`: the identity unless they are pre-norm."""

    def __init__(self, layers: Iterable[EncoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers: Sequence[EncoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: EvaluatedMask | None,
        pasts: Sequence[Past] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """Return the encoder's hidden states; `pasts` has one entry per layer."""
        for layer, past in zip(self.layers, pasts or [NO_PAST] * len(self.layers), strict=True):
            x = layer(x, mask, past)
        return self.norm(x)
