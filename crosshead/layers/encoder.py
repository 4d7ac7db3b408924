"""The layer of an encoder: self-attention and feed-forward."""

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.kv_cache import KVCache, NoCache
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import AddNorm
from crosshead.layers.feedforward import FeedForward

NO_CACHE = NoCache()


class EncoderLayer(nn.Module):
    """One encoder layer, the left half of Figure 1 in the paper.

    Reference:
        Vaswani et al. 2017, section 3.1, Figure 1.
    """

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
        self, x: Float[Tensor, "B S D"], mask: EvaluatedMask | None, cache: KVCache = NO_CACHE
    ) -> Float[Tensor, "B S D"]:
        """Compute both sublayers."""
        start, offset = cache.length, cache.visible
        y, seen = cache.extend(x, self.add_norm_attention.before, self.attention)
        y = self.attention(y, seen, mask, offset, start)
        x = self.add_norm_attention.after(x, y)

        y = self.add_norm_feedforward.before(x)
        return self.add_norm_feedforward.after(x, self.feedforward(y))
