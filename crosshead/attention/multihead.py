"""Multi-head attention: `heads` attentions side by side, each in its own projection."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.attend import Attention, Combine, attend, weighted_sum
from crosshead.attention.cache import KeyValues
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.scores import ScaledDot, Score

Rotate = Callable[[Tensor, int], Tensor]
"""Queries or keys `B H T E`, the first at a position, turned by where they stand."""


class MultiHeadAttention(Attention):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Vaswani et al. 2017, section 3.2.2).

    `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`. The matrices of all heads are packed into one
    projection of the queries and one of keys and values, which stay usable on their own: decoding
    projects the encoder's memory once and each new position once.

    What is attended to may be of another width, `d_memory`. With fewer `kv_heads` than `heads`
    neighbouring heads share keys and values: one for all is multi-query attention (Shazeer 2019),
    some grouped-query (Ainslie et al. 2023). `score`, `combine` and `rotate` say how positions and
    vectors meet; those that are modules are trained along. `output_gain` scales W^O at the start.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_key: int,
        d_value: int,
        d_memory: int | None = None,
        kv_heads: int | None = None,
        score: Score = ScaledDot(),  # noqa: B008 - immutable
        combine: Combine = weighted_sum,
        rotate: Rotate | None = None,
        dropout: float = 0.0,
        output_gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.heads, self.d_key, self.d_value = heads, d_key, d_value
        self.kv_heads = kv_heads or heads
        if heads % self.kv_heads:
            raise ValueError(f"{heads} heads cannot share {self.kv_heads} keys and values evenly")
        self.query = nn.Linear(d_model, heads * d_key)
        self.key_value = nn.Linear(d_memory or d_model, self.kv_heads * (d_key + d_value))
        self.output = nn.Linear(heads * d_value, d_model)
        self.score, self.combine, self.rotate = score, combine, rotate
        self.dropout = dropout
        self.output_gain = output_gain
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform matrices, each part of a packed one by its own fans; biases zero."""
        keys, values = self.key_value.weight.split(self._split(), dim=0)
        for weight in (self.query.weight, keys, values):
            nn.init.xavier_uniform_(weight)
        nn.init.xavier_uniform_(self.output.weight, gain=self.output_gain)
        for layer in (self.query, self.key_value, self.output):
            nn.init.zeros_(layer.bias)

    def project(self, memory: Float[Tensor, "B K D"], start: int = 0) -> KeyValues:
        """The keys and values of `memory`, per head; its first vector is at position `start`."""
        keys, values = self.key_value(memory).split(self._split(), dim=-1)
        keys = keys.unflatten(-1, (self.kv_heads, self.d_key)).transpose(1, 2)
        values = values.unflatten(-1, (self.kv_heads, self.d_value)).transpose(1, 2)
        return KeyValues(self._turned(keys, start), values)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: KeyValues,
        mask: EvaluatedMask | None = None,
        offset: int = 0,
        start: int | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Let every position of `x` attend to projected memory; `mask` is True where it may.

        `offset` is the number of positions by which `x` begins behind the memory: those before it,
        in self-attention with a past. Where the memory has lost its beginning, `x` stands at
        another position, `start`.
        """
        query = self.query(x).unflatten(-1, (self.heads, self.d_key)).transpose(1, 2)
        heads = attend(
            self._turned(query, offset if start is None else start),
            self._for_each_head(memory.keys),
            self._for_each_head(memory.values),
            mask=mask,
            score=self.score,
            combine=self.combine,
            offset=offset,
            dropout=self.dropout if self.training else 0.0,
            observe=self.observe,
            backend=self.backend,
        )
        return self.output(heads.transpose(1, 2).flatten(2))

    def _split(self) -> tuple[int, int]:
        return self.kv_heads * self.d_key, self.kv_heads * self.d_value

    def _turned(self, x: Float[Tensor, "B H T E"], start: int) -> Float[Tensor, "B H T E"]:
        return x if self.rotate is None else self.rotate(x, start)

    def _for_each_head(self, x: Float[Tensor, "B G K E"]) -> Float[Tensor, "B H K E"]:
        """Keys or values, those that heads share repeated for each; of one for all, a view."""
        shared = self.heads // self.kv_heads
        return x.unsqueeze(2).expand(-1, -1, shared, -1, -1).flatten(1, 2) if shared > 1 else x
