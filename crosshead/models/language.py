"""Language models: their common base, and the decoder-only Transformer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.attention.attend import Attention
from crosshead.attention.kv_cache import DecodingCache, KVCache, NoCache
from crosshead.models.attention_kinds import PositionsName
from crosshead.models.base import AttentionKind, SequenceModel
from crosshead.models.patterns import cache_window, causal_mask
from crosshead.models.stack import residual_init_scale, self_attention
from crosshead.models.text_stack import TextStack, TextStackConfig


class LanguageConfig(TextStackConfig):
    """The shape of a decoder-only Transformer."""

    architecture: Literal["language"] = "language"
    """The architecture of the model."""

    positions: PositionsName = "rotary"
    """The kind of positions, as for `transformer`. Rotary positions learned text fastest in short
    training, and they have no limit."""


class LanguageModel(TextStack, SequenceModel):
    """A stack of layers that predicts each token from the tokens before it."""

    def continue_from(
        self, caches: Sequence[KVCache], tokens: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N T D"]:
        """Return the last hidden states of tokens that follow cached ones.

        No token sees a later one, so padding at the end of a row changes nothing before it.
        """
        mask = causal_mask(self.config, tokens.shape[1], caches[0].visible, tokens.device)
        x = self.embeddings(tokens, start=caches[0].length)
        for layer, cache in zip(self.stack.layers, caches, strict=True):
            x = layer(x, mask, cache)
        return self.stack.norm(x)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"decoder": [layer.attention for layer in self.stack.layers]}


@dataclass
class LanguageState:
    """The state of decoding `N` rows: the key-value cache of each layer."""

    caches: list[DecodingCache]

    def select(self, rows: Int[Tensor, " M"]) -> "LanguageState":
        """Return a state whose row i continues row `rows[i]` of this one."""
        return LanguageState(select(self.caches, rows))


class TransformerLanguageModel(LanguageModel):
    """The Transformer's decoder without a source: a language model.

    With learned positions, pre-norm, activation "gelu-tanh" and embeddings that are not scaled by
    sqrt(d_model) it is GPT-2.

    Args:
        config: The shape.
        vocabulary: Number of tokens.

    Reference:
        Vaswani et al. 2017; Liu et al. 2018, section 4.2.3; Radford et al. 2019, section 2.3
        (GPT-2).
    """

    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        super().__init__(
            config,
            vocabulary,
            lambda: self_attention(config, residual_init_scale(config.layers), causal=True),
        )

    @property
    def has_fixed_work(self) -> bool:
        """True without a pattern, whose blocks depend on padding, and without a limit of length.

        Padding up to a rounded size may go beyond a limit.
        """
        return self.config.pattern == "full" and self.config.most_positions is None

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states; each position sees the tokens up to itself.

        Args:
            tokens: Token ids, "B T".

        Returns:
            Hidden states, "B T D".
        """
        return self.continue_from([NoCache()] * self.config.layers, tokens)

    def start(self, source: Int[Tensor, "B 0"]) -> LanguageState:
        """Return the state before the first token; the source of a language model is empty."""
        window = cache_window(self.config)
        return LanguageState([DecodingCache(window) for _ in range(self.config.layers)])

    @torch.no_grad()
    def step(
        self, state: LanguageState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], LanguageState]:
        """Feed each row its next tokens.

        Args:
            state: The state so far. It is extended in place, so do not use it again.
            tokens: Token ids, "N T".

        Returns:
            The last hidden state of each row, "N D", and the new state. No gradient passes.
        """
        return self.continue_from(state.caches, tokens)[:, -1], state


def select(caches: Iterable[DecodingCache], rows: Int[Tensor, " M"]) -> list[DecodingCache]:
    """Return the caches of the chosen rows."""
    if not rows.numel():
        raise ValueError("no row is chosen; keep at least one row, or stop decoding")
    return [cache.select(rows) for cache in caches]
