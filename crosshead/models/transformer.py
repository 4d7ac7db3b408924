"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): configuration and model."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from crosshead.attention.attend import Attention
from crosshead.attention.kv_cache import DecodingCache, NoCache
from crosshead.attention.masks import padding_mask
from crosshead.layers.decoder import DecoderLayer
from crosshead.layers.embeddings import Embeddings, embedding_weight, source_and_target_weights
from crosshead.layers.encoder import EncoderLayer
from crosshead.layers.layer_stack import LayerStack
from crosshead.models.base import AttentionKind, EncoderDecoderConfig, SequenceModel
from crosshead.models.patterns import cache_window, causal_mask, decoding_mask, self_mask
from crosshead.models.source_memory import SentenceMemory
from crosshead.models.stack import (
    StackConfig,
    added_positions,
    decoder_stack,
    encoder_stack,
)
from crosshead.vocabulary import BOS, PAD


class TransformerConfig(StackConfig, EncoderDecoderConfig):
    """The shape of a Transformer; the defaults are the paper's `base` model.

    Reference:
        Vaswani et al. 2017, Table 3.
    """

    architecture: Literal["transformer"] = "transformer"
    """The architecture of the model."""

    output_bias: bool = False
    """True gives the output projection a bias."""

    start: Literal["bos", "pad"] = "bos"
    """The token that the target starts with; Marian starts with padding."""

    @property
    def start_token(self) -> int:
        """The id of the first token of every target."""
        return BOS if self.start == "bos" else PAD

    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""
        return self.layers_and_widths(f"{self.encoder_layers}+{self.decoder_layers}")


@dataclass
class TransformerState:
    """The state of decoding `N` rows: the encoded sources and the key-value caches."""

    memory: SentenceMemory
    caches: list[DecodingCache]

    def select(self, rows: Int[Tensor, " M"]) -> "TransformerState":
        """Return a state whose row i continues row `rows[i]`: see `SentenceMemory.select`."""
        memory = self.memory.select(rows)
        return TransformerState(memory, [cache.select(rows) for cache in self.caches])

    def join(self, other: "TransformerState") -> "TransformerState":
        """Return a state with the rows of this one, and then those of another."""
        caches = zip(self.caches, other.caches, strict=True)
        return TransformerState(
            self.memory.join(other.memory), [mine.join(new) for mine, new in caches]
        )

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        return self.memory.nbytes + sum(cache.nbytes for cache in self.caches)


class EncoderDecoder(SequenceModel):
    """The base of models whose decoder of tokens attends to an encoded source of any kind.

    Reference:
        Vaswani et al. 2017, section 3.1, Figure 1.
    """

    config: StackConfig  # type: ignore[assignment]  # every configuration is also one of tokens
    target_embeddings: Embeddings
    decoder: LayerStack[DecoderLayer]
    projection: nn.Linear

    @abstractmethod
    def encode(self, *source: Any) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"] | None]:
        """Encode a source."""

    @abstractmethod
    def encoder_layers(self) -> Sequence[EncoderLayer]:
        """Return the layers of the encoder, the first one first."""

    def features(self, *inputs: Tensor) -> Float[Tensor, "B T D"]:
        """Return the decoder's last hidden states, one per target position (section 3.1).

        `forward` projects them to logits. The fused loss starts from them instead.
        """
        *source, target = inputs
        memory, memory_mask = self.encode(*source)
        mask = causal_mask(self.config, target.shape[1], 0, target.device)
        x = self.target_embeddings(target)
        for layer in self.decoder.layers:
            x = layer(x, NoCache(), layer.project_memory(memory), mask, memory_mask)
        return self.decoder.norm(x)

    def start(self, source: Any) -> TransformerState:
        """Return the state before the first token, one row per source."""
        return self.begin(*self.encode(source))

    def begin(
        self, memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> TransformerState:
        """Return the state before the first token, one row per encoded source."""
        if mask is None:
            mask = torch.ones(len(memory), 1, 1, memory.shape[1], dtype=torch.bool).to(
                memory.device
            )
        window = cache_window(self.config)
        caches = [DecodingCache(window) for _ in self.decoder.layers]
        memories = [layer.project_memory(memory) for layer in self.decoder.layers]
        return TransformerState(SentenceMemory(memories, mask), caches)

    @torch.no_grad()
    def step(
        self, state: TransformerState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], TransformerState]:
        """Feed each row its next tokens."""
        cache = state.caches[0]
        mask = decoding_mask(self.config, tokens.shape[1], cache, tokens.device)
        x = self.target_embeddings(tokens, start=cache.length)
        stack = zip(self.decoder.layers, state.caches, state.memory.layers, strict=True)
        for layer, cache, memory in stack:
            x = layer(x, cache, memory, mask, state.memory.seen)
        return self.decoder.norm(x)[:, -1], state

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention modules of all three kinds, the first layer first."""
        return {
            "cross": [layer.cross_attention for layer in self.decoder.layers],
            "encoder": [layer.attention for layer in self.encoder_layers()],
            "decoder": [layer.self_attention for layer in self.decoder.layers],
        }

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of both stacks."""
        return (*self.encoder_layers(), *self.decoder.layers)

    def called_alone(self) -> Iterable[nn.Module]:
        """Return the projections of the memory, which run before the decoder's layers."""
        return [layer.cross_attention.key_value for layer in self.decoder.layers]


class Transformer(EncoderDecoder):
    """The Transformer of "Attention Is All You Need", an encoder-decoder.

    `forward` gives logits for training; `start` and `step` decode (`crosshead.decoding.protocol`).

    Matrices start Glorot-uniform, biases zero, embeddings N(0, 1/d_model). The last matrix of a
    residual branch (W^O of attention, W_2 of feed-forward) is scaled by `residual_init_scale`.

    Args:
        config: The shape.
        source_vocabulary: Number of source tokens.
        target_vocabulary: Number of target tokens.

    Reference:
        Vaswani et al. 2017, section 3, Figure 1.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_vocabulary: int,
        target_vocabulary: int,
    ) -> None:
        super().__init__()
        self.config: TransformerConfig = config
        draw = partial(embedding_weight, d_model=config.d_model)
        source_weight, target_weight = source_and_target_weights(
            draw, source_vocabulary, target_vocabulary, shared=config.tie == "three-way"
        )
        self.source_embeddings = Embeddings(source_weight, added_positions(config), config.dropout)
        self.target_embeddings = Embeddings(target_weight, added_positions(config), config.dropout)
        self.encoder = encoder_stack(config, config.encoder_layers)
        self.decoder = decoder_stack(config, config.decoder_layers)
        self.projection = nn.Linear(config.d_model, target_vocabulary, bias=config.output_bias)
        self.projection.weight = draw(target_vocabulary) if config.tie == "none" else target_weight
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)

    @property
    def has_fixed_work(self) -> bool:
        """True without a pattern, whose blocks depend on padding, and without a limit of length.

        Padding up to a rounded size may go beyond a limit.
        """
        return self.config.pattern == "full" and self.config.most_positions is None

    def encode(
        self, source: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"]]:
        """Encode a padded source (section 3.1).

        Args:
            source: Token ids, "B S".

        Returns:
            The memory, "B S D", and its padding mask, "B 1 1 S".
        """
        batch, length = source.shape
        valid = padding_mask(source != PAD)
        memory_mask = valid.dense(1, length, batch=batch, device=source.device)
        mask = self_mask(self.config, valid)
        seen = mask.evaluate(length, length, batch=batch, device=source.device)
        x = self.source_embeddings(source)
        for layer in self.encoder.layers:
            x = layer(x, seen)
        return self.encoder.norm(x), memory_mask

    def encoder_layers(self) -> Sequence[EncoderLayer]:
        """Return the layers of the encoder, the first one first."""
        return list(self.encoder.layers)
