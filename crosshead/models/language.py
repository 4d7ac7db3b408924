"""Models that go on with text: what they have in common, and the decoder-only Transformer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.attention.attend import Attention
from crosshead.attention.cache import DecodingCache, KVCache, NoCache
from crosshead.models.base import AttentionKind, SequenceModel
from crosshead.models.stack import Positions, branch_gain, cache_window, causal_mask, self_attention
from crosshead.models.text_stack import TextStack, TextStackConfig


class LanguageConfig(TextStackConfig):
    """The shape of a decoder-only Transformer."""

    architecture: Literal["language"] = "language"
    # Of all kinds these learned text fastest in little training, and they have no end.
    positions: Positions = "rotary"


class LanguageModel(TextStack, SequenceModel):
    """A stack of layers that reads what it has written."""

    def after(
        self, caches: Sequence[KVCache], tokens: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N T D"]:
        """Return the last hidden states of `tokens`, which follow `caches` (one per layer).

        No token sees a later one, so padding at the end of a row changes nothing before it.
        """
        mask = causal_mask(self.config, tokens.shape[1], caches[0].visible, tokens.device)
        return self.stack(self.embeddings(tokens, start=caches[0].length), mask, caches)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"decoder": [layer.attention for layer in self.stack.layers]}


@dataclass
class LanguageState:
    """The text written in `N` rows, as keys and values of each layer."""

    caches: list[DecodingCache]

    def select(self, rows: Int[Tensor, " M"]) -> "LanguageState":
        """A state whose row i continues row `rows[i]` of this one.

        Raises `ValueError` where no row is left.
        """
        return LanguageState(select(self.caches, rows))


class TransformerLanguageModel(LanguageModel):
    """The decoder of Vaswani et al. 2017 without a source: Liu et al. 2018, section 4.2.3.

    With learned positions, pre-norm and activation "gelu-tanh" it is GPT-2 (Radford et al. 2019,
    section 2.3), whose embeddings are not scaled by sqrt(d_model): divided by that they are the
    (untied) ones here.
    """

    def __init__(self, config: LanguageConfig, vocabulary: int) -> None:
        super().__init__(
            config,
            vocabulary,
            lambda: self_attention(config, branch_gain(config.layers), causal=True),
        )

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states; each position sees the tokens up to itself."""
        return self.after([NoCache()] * self.config.layers, tokens)

    def start(self, source: Int[Tensor, "B 0"]) -> LanguageState:
        """The state before the first token; the source of a model of text by itself is empty."""
        reach = cache_window(self.config)
        return LanguageState([DecodingCache(reach) for _ in range(self.config.layers)])

    @torch.no_grad()
    def step(
        self, state: LanguageState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], LanguageState]:
        """Feed each row its next tokens; what the last layer says after them, and the state then.

        `state` is used up: its caches are extended in place, and the state after is the same one.
        No gradient passes.
        """
        return self.after(state.caches, tokens)[:, -1], state


def select(caches: Iterable[DecodingCache], rows: Int[Tensor, " M"]) -> list[DecodingCache]:
    """The caches of the chosen rows; raises `ValueError` where none is chosen."""
    if not rows.numel():
        raise ValueError("a state keeps at least one row; stop decoding where none is left")
    return [cache.select(rows) for cache in caches]
