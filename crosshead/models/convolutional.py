"""ConvS2S (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning").

    h_i = v(W [h'_{i-k/2}; ...; h'_{i+k/2}] + b) + h'_i        section 3.2, h' the layer below
    d_i = W_d h_i + b_d + g_i                                  Eq. 1, g the target's embeddings
    a_ij = softmax_j(d_i . z_j)                                z the encoder's output
    c_i = sum_j a_ij (z_j + e_j)                               Eq. 2, e the source's embeddings

With `score = "additive"` v^T tanh(d_i + z_j) takes the place of d_i . z_j, with a vector v for each
decoder layer: the score of Bahdanau et al. 2015 (section A.1.2), whose W_a and U_a are the linear
maps of h and of z. The paper has the dot product alone.

In the decoder a window ends with its position, and c_i is added to h_i. To keep variances constant
at the start, every sum of two is multiplied by sqrt(1/2). The mean c_i over a source of m vectors
is multiplied by m sqrt(1/m) (section 3.4).

Embeddings are as wide as layers here. Section 3.2 lists the linear maps between them: of embeddings
before the first layer, of z, of h before scores (W_d), and of h before the logits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.attend import Attention, attend
from crosshead.attention.dropout import Dropout
from crosshead.attention.kv_cache import KeyValues, Positions
from crosshead.attention.masks import padding_mask
from crosshead.attention.scores import Dot, ProjectedAdditive, Score
from crosshead.config import MOST_KERNEL, MOST_LAYERS, MOST_POSITIONS
from crosshead.layers.convolution import GatedConvolution, WeightNormLinear
from crosshead.layers.embeddings import (
    Embeddings,
    LearnedPositions,
    embedding_weight,
    source_and_target_weights,
)
from crosshead.models.base import AttentionKind, EncoderDecoderConfig, SequenceModel
from crosshead.models.source_memory import SentenceMemory
from crosshead.vocabulary import PAD

ROOT_HALF = 0.5**0.5
"""The factor that keeps the variance in a sum of two vectors of equal variance."""

EMBEDDING_STD = 0.1
"""Standard deviation of the initial embeddings (section 3.5)."""


class ConvolutionalConfig(EncoderDecoderConfig):
    """The shape of a ConvS2S, by default as for WMT'16 English-Romanian (section 5.1)."""

    architecture: Literal["convolutional"] = "convolutional"
    """The architecture of the model."""

    encoder_layers: int = Field(20, ge=1, le=MOST_LAYERS)
    """Layers of the encoder."""

    decoder_layers: int = Field(20, ge=1, le=MOST_LAYERS)
    """Layers of the decoder."""

    kernel: int = Field(3, ge=1, le=MOST_KERNEL)
    """Number of positions in a window; odd, because the encoder's windows are centred."""

    max_length: int = Field(1024, ge=1, le=MOST_POSITIONS)
    """Number of learned positions, for source and target each."""

    score: Literal["dot", "additive"] = "dot"
    """Score of a decoder state and a source position; the paper has the dot product."""

    @field_validator("kernel")
    @classmethod
    def _has_a_middle(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError(f"expected an odd number, because windows are centred, found {kernel}")
        return kernel

    @property
    def most_positions(self) -> int:
        """The number of learned positions."""
        return self.max_length

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        return (
            f"{self.encoder_layers}+{self.decoder_layers} convolutional layers, d_model "
            f"{self.d_model}, kernel {self.kernel}"
        )


class ConvolutionalEncoderLayer(nn.Module):
    """An encoder layer: a gated convolution of centred windows with a residual connection."""

    def __init__(self, d_model: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = GatedConvolution(d_model, kernel, 1 - dropout)
        self.reach = kernel // 2

    def forward(
        self, x: Float[Tensor, "B S D"], scale: Float[Tensor, "B S 1"]
    ) -> Float[Tensor, "B S D"]:
        """Compute the layer."""
        y = self.convolution(F.pad(self.dropout(x), (0, 0, self.reach, self.reach)))
        return (x + y) * scale


_SCORES: dict[str, Callable[[int], Score]] = {
    "dot": lambda d_model: Dot(),
    "additive": lambda d_model: ProjectedAdditive(1, d_model),
}
"""Functions from the width of queries and keys to the score of each name."""


class Hop(Attention):
    """The attention of one decoder layer: one hop of multi-step attention (section 3.3)."""

    def __init__(self, d_model: int, score: Score) -> None:
        super().__init__()
        self.query = WeightNormLinear(d_model, d_model, 1 / d_model)
        self.score = score

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        embedded: Float[Tensor, "N T D"],
        memory: SentenceMemory,
    ) -> Float[Tensor, "N T D"]:
        """Return c_i at every position (Eq. 1 and 2)."""
        [(keys, values)] = memory.layers
        query = (self.query(x) + embedded) * ROOT_HALF
        found = attend(
            query.reshape(keys.shape[0], 1, -1, keys.shape[-1]),
            keys,
            values,
            mask=memory.mask,
            score=self.score,
            observe=self.observe,
            backend=self.backend,
        )
        return found.reshape(x.shape)


class ConvolutionalDecoderLayer(nn.Module):
    """A decoder layer: a gated convolution of the target so far, and attention to the source."""

    def __init__(self, d_model: int, kernel: int, dropout: float, score: Score) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = GatedConvolution(d_model, kernel, 1 - dropout)
        self.cross_attention = Hop(d_model, score)

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        before: Float[Tensor, "N P D"],
        embedded: Float[Tensor, "N T D"],
        memory: SentenceMemory,
    ) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N P D"]]:
        """Compute the layer for the next target positions."""
        seen = torch.cat((before, self.dropout(x)), dim=1)
        h = (x + self.convolution(seen)) * ROOT_HALF
        x = (h + self.cross_attention(h, embedded, memory)) * ROOT_HALF
        return x, seen[:, seen.shape[1] - before.shape[1] :]


@dataclass
class ConvolutionalState:
    """The state of decoding `N` rows.

    Attributes:
        memory: The encoded sources.
        last_inputs: The inputs of every layer at the last `P = kernel - 1` positions, "N P D".
        length: Number of tokens so far, or the number of each row.
    """

    memory: SentenceMemory
    last_inputs: Sequence[Float[Tensor, "N P D"]]
    length: Positions = 0

    def select(self, rows: Int[Tensor, " M"]) -> "ConvolutionalState":
        """Return a state whose row i continues row `rows[i]`: see `SentenceMemory.select`."""
        memory = self.memory.select(rows)
        length = self.length if isinstance(self.length, int) else self.length[rows]
        return ConvolutionalState(memory, [each[rows] for each in self.last_inputs], length)

    def join(self, other: "ConvolutionalState") -> "ConvolutionalState":
        """Return a state with the rows of this one, and then those of another."""
        inputs = zip(self.last_inputs, other.last_inputs, strict=True)
        lengths = [
            torch.zeros(len(part.last_inputs[0]), dtype=torch.long, device=part.memory.mask.device)
            + part.length
            for part in (self, other)
        ]
        return ConvolutionalState(
            self.memory.join(other.memory), [torch.cat(pair) for pair in inputs], torch.cat(lengths)
        )

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return self.memory.nbytes + sum(part.nbytes for part in self.last_inputs)


class Convolutional(SequenceModel):
    """ConvS2S: an encoder and a decoder of gated convolutions, and attention in every layer.

    `forward` gives logits for training; `start` and `step` decode (`crosshead.decoding.protocol`).
    All linear maps are weight-normalised, except the output projection, which may share the
    embeddings.

    Args:
        config: The shape.
        source_vocabulary: Number of source tokens.
        target_vocabulary: Number of target tokens.
    """

    def __init__(
        self, config: ConvolutionalConfig, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        self.config: ConvolutionalConfig = config
        d_model, dropout, keep = config.d_model, config.dropout, 1 - config.dropout
        source_weight, target_weight = source_and_target_weights(
            partial(embedding_weight, d_model=d_model, std=EMBEDDING_STD),
            source_vocabulary,
            target_vocabulary,
            shared=config.tie == "three-way",
        )
        length = config.max_length
        self.source_embeddings, self.target_embeddings = (
            Embeddings(weight, LearnedPositions(d_model, length, EMBEDDING_STD), dropout, scale=1.0)
            for weight in (source_weight, target_weight)
        )
        self.source_map = WeightNormLinear(d_model, d_model, keep / d_model)
        self.encoder = nn.ModuleList(
            ConvolutionalEncoderLayer(d_model, config.kernel, dropout)
            for _ in range(config.encoder_layers)
        )
        self.memory_map = WeightNormLinear(d_model, d_model, 1 / d_model)
        self.target_map = WeightNormLinear(d_model, d_model, keep / d_model)
        self.decoder: Sequence[ConvolutionalDecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            ConvolutionalDecoderLayer(
                d_model, config.kernel, dropout, _SCORES[config.score](d_model)
            )
            for _ in range(config.decoder_layers)
        )
        self.output_map = WeightNormLinear(d_model, d_model, 1 / d_model)
        self.dropout = Dropout(dropout)
        self.projection = nn.Linear(d_model, target_vocabulary)
        nn.init.zeros_(self.projection.bias)
        if config.tie == "none":
            nn.init.normal_(self.projection.weight, std=(keep / d_model) ** 0.5)
        else:
            self.projection.weight = target_weight

    def encode(self, source: Int[Tensor, "B S"]) -> SentenceMemory:
        """Encode a padded source; all layers of the decoder share the memory.

        Args:
            source: Token ids, "B S".

        Returns:
            The memory.
        """
        valid = source != PAD
        embedded = self.source_embeddings(source)
        kept = valid[:, :, None].to(embedded.dtype)
        x = self.source_map(embedded) * kept
        for layer in self.encoder:
            x = layer(x, kept * ROOT_HALF)
        z = self.memory_map(x)
        if z.requires_grad:
            # Every decoder layer sends a gradient back here. Their sum is divided by the number of
            # layers (section 3.4). fairseq divides by twice this number: see docs/models.md.
            z.register_hook(lambda gradient: gradient / self.config.decoder_layers)
        # The values are scaled instead of c_i, once for all layers: m sqrt(1/m) = sqrt(m).
        root = valid.sum(dim=1)[:, None, None].to(z.dtype).sqrt()
        values = (z + embedded) * (ROOT_HALF * root)
        mask = padding_mask(valid).dense(
            1, source.shape[1], batch=len(source), device=source.device
        )
        return SentenceMemory([KeyValues(z[:, None], values[:, None])], mask)

    def features(
        self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the decoder's last hidden states, one per target position.

        Args:
            source: Token ids, "B S".
            target: Token ids of the shifted target, "B T".

        Returns:
            Hidden states, "B T D".
        """
        state = self._initial_state(self.encode(source))
        return self._decode(state, target)[0]

    def start(self, source: Int[Tensor, "B S"]) -> ConvolutionalState:
        """Return the state before the first token, one row per sentence."""
        return self._initial_state(self.encode(source))

    def step(
        self, state: ConvolutionalState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], ConvolutionalState]:
        """Feed each row its next tokens.

        Args:
            state: The state so far; it stays unchanged.
            tokens: Token ids, "N T".

        Returns:
            The last hidden state of each row, "N D", and the new state.
        """
        hidden, state = self._decode(state, tokens)
        return hidden[:, -1], state

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention modules of the decoder, the first layer first."""
        return {"cross": [layer.cross_attention for layer in self.decoder]}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of both stacks."""
        return (*self.encoder, *self.decoder)

    def _initial_state(self, memory: SentenceMemory) -> ConvolutionalState:
        values = memory.layers[0].values
        zeros = values.new_zeros(len(values), self.config.kernel - 1, self.config.d_model)
        return ConvolutionalState(memory, [zeros] * self.config.decoder_layers)

    def _decode(
        self, state: ConvolutionalState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N T D"], ConvolutionalState]:
        """Return the last hidden states of the next tokens, and the state after them."""
        embedded = self.target_embeddings(tokens, state.length)
        x, inputs = self.target_map(embedded), []
        for layer, before in zip(self.decoder, state.last_inputs, strict=True):
            x, before = layer(x, before, embedded, state.memory)
            inputs.append(before)
        hidden = self.dropout(self.output_map(x))
        return hidden, ConvolutionalState(state.memory, inputs, state.length + tokens.shape[1])
