"""Multi-head attention: several attentions in parallel, each with its own projections."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.attend import Attention, Combine, attend, weighted_sum
from crosshead.attention.kv_cache import KeyValues, Positions
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.scores import ScaledDot, Score

Rotate = Callable[[Tensor, Positions], Tensor]
"""A function of queries or keys `B H T E` and the position of the first that rotates them."""


class MultiHeadAttention(Attention):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). One projection packs the queries of all heads,
    and another one packs keys and values. Each can be computed on its own, so decoding projects the
    encoder's memory once and each new position once.

    Args:
        d_model: Width of the input and the output.
        heads: Number of heads.
        d_key: Width of a head's queries and keys.
        d_value: Width of a head's values.
        d_memory: Width of the vectors that keys and values come from; by default `d_model`.
        kv_heads: Number of heads of keys and values; by default `heads`. With fewer, neighbouring
            heads share keys and values: 1 is multi-query attention, other numbers are grouped-query
            attention.
        score: Score function. A module is trained with the layer.
        combine: Function that turns weights and values into outputs. A module is trained with the
            layer.
        rotate: Rotation of queries and keys by their positions.
        dropout: Share of the weights that is dropped in training.
        output_gain: Scale of the initial W^O.

    Raises:
        ValueError: If `kv_heads` does not divide `heads`.

    Reference:
        Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (multi-query attention); Ainslie et al.
        2023 (grouped-query attention).
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
            raise ValueError(
                f"{heads} heads cannot share {self.kv_heads} keys and values evenly; choose "
                "kv_heads that divides heads"
            )
        self.query = nn.Linear(d_model, heads * d_key)
        self.key_value = nn.Linear(d_memory or d_model, self.kv_heads * (d_key + d_value))
        self.output = nn.Linear(heads * d_value, d_model)
        self.score, self.combine, self.rotate = score, combine, rotate
        self.dropout = dropout
        self.output_gain = output_gain
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise matrices Glorot-uniformly, with each part's own fans, and biases with zero."""
        keys, values = self.key_value.weight.split(self._split(), dim=0)
        for weight in (self.query.weight, keys, values):
            nn.init.xavier_uniform_(weight)
        nn.init.xavier_uniform_(self.output.weight, gain=self.output_gain)
        for layer in (self.query, self.key_value, self.output):
            nn.init.zeros_(layer.bias)

    def project(self, memory: Float[Tensor, "B K D"], start: Positions = 0) -> KeyValues:
        """Return the keys and values of a memory.

        Args:
            memory: Vectors to attend to, "B K D".
            start: Position of the first vector, or of the first one in each row.

        Returns:
            Keys and values of each head.
        """
        keys, values = self.unpacked(self.key_value(memory))
        return KeyValues(self._apply_rotary(keys, start), values)

    def packed(
        self, memory: Float[Tensor, "B K D"], start: Positions = 0
    ) -> Float[Tensor, "B K W"]:
        """Return the keys of all heads, and then their values, side by side.

        Args:
            memory: Vectors to attend to, "B K D".
            start: Position of the first vector, or of the first one in each row.

        Returns:
            Keys and values, "B K W".
        """
        if self.rotate is None:
            return self.key_value(memory)
        parts = self.project(memory, start)
        return torch.cat([part.transpose(1, 2).flatten(2) for part in parts], dim=2)

    def unpacked(self, packed: Float[Tensor, "B K W"]) -> KeyValues:
        """Return the keys and values of each head, as views of what `packed` returns.

        Args:
            packed: Keys and values, "B K W".

        Returns:
            Keys and values of each head.
        """
        keys, values = packed.split(self._split(), dim=-1)
        shape = (*packed.shape[:2], self.kv_heads)
        keys, values = keys.view(*shape, self.d_key), values.view(*shape, self.d_value)
        return KeyValues(keys.transpose(1, 2), values.transpose(1, 2))

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: KeyValues,
        mask: EvaluatedMask | None = None,
        offset: int = 0,
        start: Positions | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Let every position of `x` attend to a projected memory.

        Args:
            x: Hidden states, "B Q D".
            memory: Keys and values from `project`.
            mask: True where a position may attend.
            offset: Number of positions from the start of the memory to the start of `x`: the cached
                positions, in self-attention.
            start: Position of the first vector of `x`; by default `offset`. It differs if the cache
                has dropped its first positions.

        Returns:
            The output of each position, "B Q D".
        """
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, self.heads, self.d_key).transpose(1, 2)
        heads = attend(
            self._apply_rotary(query, offset if start is None else start),
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
        return self.output(heads.transpose(1, 2).reshape(batch, length, -1).to(x.dtype))

    def _split(self) -> tuple[int, int]:
        return self.kv_heads * self.d_key, self.kv_heads * self.d_value

    def _apply_rotary(
        self, x: Float[Tensor, "B H T E"], start: Positions
    ) -> Float[Tensor, "B H T E"]:
        return x if self.rotate is None else self.rotate(x, start).to(x.dtype)

    def _for_each_head(self, x: Float[Tensor, "B G K E"]) -> Float[Tensor, "B H K E"]:
        """Return keys or values for each head; a view repeats the shared ones if all share one."""
        shared = self.heads // self.kv_heads
        return x.unsqueeze(2).expand(-1, -1, shared, -1, -1).flatten(1, 2) if shared > 1 else x
