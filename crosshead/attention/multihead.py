"""Multi-head attention: `heads` attentions side by side, each in its own projection."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from crosshead.attention.attend import Backend, Observe, attend
from crosshead.attention.cache import KeyValues


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (Vaswani et al. 2017, section 3.2.2).

    `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`. The matrices of all heads are packed into one
    projection of the queries and one of keys and values, which stay usable on their own: decoding
    projects the encoder's memory once and each new position once.

    `output_gain` scales W^O at the start. `observe`, where set, is shown the attention weights
    `B H Q K` of every call.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_key: int,
        d_value: int,
        dropout: float = 0.0,
        output_gain: float = 1.0,
        backend: Backend | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.d_key, self.d_value = heads, d_key, d_value
        self.query = nn.Linear(d_model, heads * d_key)
        self.key_value = nn.Linear(d_model, heads * (d_key + d_value))
        self.output = nn.Linear(heads * d_value, d_model)
        self.dropout = dropout
        self.output_gain = output_gain
        self.backend = backend
        self.observe: Observe | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform matrices, each part of a packed one by its own fans; biases zero."""
        keys, values = self.key_value.weight.split(self._split(), dim=0)
        for weight in (self.query.weight, keys, values):
            nn.init.xavier_uniform_(weight)
        nn.init.xavier_uniform_(self.output.weight, gain=self.output_gain)
        for layer in (self.query, self.key_value, self.output):
            nn.init.zeros_(layer.bias)

    def project(self, memory: Float[Tensor, "B K D"]) -> KeyValues:
        """The keys and values of `memory`, per head."""
        keys, values = self.key_value(memory).split(self._split(), dim=-1)
        return KeyValues(
            keys.unflatten(-1, (self.heads, self.d_key)).transpose(1, 2),
            values.unflatten(-1, (self.heads, self.d_value)).transpose(1, 2),
        )

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: KeyValues,
        mask: Bool[Tensor, "#B #H #Q #K"] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Let every position of `x` attend to projected memory; `mask` is True where it may."""
        query = self.query(x).unflatten(-1, (self.heads, self.d_key)).transpose(1, 2)
        heads = attend(
            query,
            memory.keys,
            memory.values,
            mask=mask,
            dropout=self.dropout if self.training else 0.0,
            observe=self.observe,
            backend=self.backend,
        )
        return self.output(heads.transpose(1, 2).flatten(2))

    def _split(self) -> tuple[int, int]:
        return self.heads * self.d_key, self.heads * self.d_value
