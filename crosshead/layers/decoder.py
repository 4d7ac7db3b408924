"""The layer of a decoder: self-attention, cross-attention to the source, feed-forward."""

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.kv_cache import KeyValues, KVCache
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import AddNorm
from crosshead.layers.feedforward import FeedForward


class DecoderLayer(nn.Module):
    """One decoder layer, the right half of Figure 1 in the paper.

    Reference:
        Vaswani et al. 2017, section 3.1, Figure 1.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feedforward: FeedForward,
        add_norm: tuple[AddNorm, AddNorm, AddNorm],
    ) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = self_attention, cross_attention
        self.feedforward = feedforward
        self.add_norm_self, self.add_norm_cross, self.add_norm_feedforward = add_norm

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        cache: KVCache,
        memory: KeyValues,
        mask: EvaluatedMask | None,
        memory_mask: EvaluatedMask | None,
    ) -> Float[Tensor, "N T D"]:
        """Compute the three sublayers for the next target positions."""
        start, offset = cache.length, cache.visible
        y, target = cache.extend(x, self.add_norm_self.before, self.self_attention)
        x = self.add_norm_self.after(x, self.self_attention(y, target, mask, offset, start))

        y = self.add_norm_cross.before(x)
        queries = y.reshape(memory.keys.shape[0], -1, y.shape[-1])
        y = self.cross_attention(queries, memory, memory_mask).reshape(x.shape)
        x = self.add_norm_cross.after(x, y)

        y = self.add_norm_feedforward.before(x)
        return self.add_norm_feedforward.after(x, self.feedforward(y))

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> KeyValues:
        """Return the keys and values of the cross-attention, computed once per source."""
        keys, values = self.cross_attention.project(memory)
        # Contiguous, because otherwise the matrix products would copy them at every decoding step.
        return KeyValues(keys.contiguous(), values.contiguous())
