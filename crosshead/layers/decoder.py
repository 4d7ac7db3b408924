"""The decoder: self-attention to what was written, cross-attention to the source, feed-forward."""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.cache import KeyValues, Past
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.addnorm import AddNorm
from crosshead.layers.feedforward import FeedForward


class DecoderLayer(nn.Module):
    """One layer of the right half of Figure 1 (Vaswani et al. 2017, section 3.1)."""

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
        past: Past,
        memory: KeyValues,
        mask: EvaluatedMask | None,
        memory_mask: EvaluatedMask | None,
    ) -> Float[Tensor, "N T D"]:
        """Attend to what was written, then to the source, then think at every position.

        `past` adds the positions before these. The memory may hold fewer sentences (`B`) than there
        are rows (`N`, sentence by sentence): the rows of a sentence then query its one memory
        together.
        """
        start, offset = past.length, past.seen
        y, written = past.extend(x, self.add_norm_self.before, self.self_attention.project)
        x = self.add_norm_self.after(x, self.self_attention(y, written, mask, offset, start))

        y = self.add_norm_cross.before(x)
        queries = y.reshape(memory.keys.shape[0], -1, y.shape[-1])
        y = self.cross_attention(queries, memory, memory_mask).reshape(x.shape)
        x = self.add_norm_cross.after(x, y)

        y = self.add_norm_feedforward.before(x)
        return self.add_norm_feedforward.after(x, self.feedforward(y))


class Decoder(nn.Module):
    """A stack of decoder layers, and after it `norm`: the identity unless they are pre-norm."""

    def __init__(self, layers: Iterable[DecoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> list[KeyValues]:
        """The keys and values that each layer's cross-attention sees, computed once a source."""
        projected = [layer.cross_attention.project(memory) for layer in self.layers]
        # As matrix products want them: otherwise every step of decoding would copy them.
        return [KeyValues(keys.contiguous(), values.contiguous()) for keys, values in projected]

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        pasts: Sequence[Past],
        memories: Sequence[KeyValues],
        mask: EvaluatedMask | None,
        memory_mask: EvaluatedMask | None,
    ) -> Float[Tensor, "N T D"]:
        """The features from which the next token is predicted."""
        for layer, past, memory in zip(self.layers, pasts, memories, strict=True):
            x = layer(x, past, memory, mask, memory_mask)
        return self.norm(x)
