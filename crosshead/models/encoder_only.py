"""The encoder-only Transformer, a masked language model: it predicts masked tokens of a text."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from crosshead.attention.attend import Attention
from crosshead.attention.masks import padding_mask
from crosshead.models.attention_kinds import PositionsName
from crosshead.models.base import AttentionKind
from crosshead.models.patterns import self_mask
from crosshead.models.stack import residual_init_scale, self_attention
from crosshead.models.text_stack import TextStack, TextStackConfig
from crosshead.vocabulary import PAD


class EncoderConfig(TextStackConfig):
    """The shape of an encoder-only Transformer."""

    task: ClassVar[str] = "masked"

    architecture: Literal["encoder"] = "encoder"
    """The architecture of the model."""

    positions: PositionsName = "rotary"
    """The kind of positions, as for `transformer`."""


class TransformerEncoder(TextStack):
    """The Transformer's encoder as a masked language model, as in BERT.

    A position attends to earlier and later positions. So the model predicts masked tokens, but
    cannot continue a text.

    Args:
        config: The shape.
        vocabulary: Number of tokens.

    Reference:
        Vaswani et al. 2017; Devlin et al. 2019, section 3.1, task 1.
    """

    def __init__(self, config: EncoderConfig, vocabulary: int) -> None:
        super().__init__(
            config,
            vocabulary,
            lambda: self_attention(config, residual_init_scale(config.layers), causal=False),
        )

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states of padded texts, one per token, masked tokens included.

        Args:
            tokens: Token ids, "B T".

        Returns:
            Hidden states, "B T D".
        """
        batch, length = tokens.shape
        mask = self_mask(self.config, padding_mask(tokens != PAD))
        seen = mask.evaluate(length, length, batch=batch, device=tokens.device)
        x = self.embeddings(tokens)
        for layer in self.stack.layers:
            x = layer(x, seen)
        return self.stack.norm(x)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"encoder": [layer.attention for layer in self.stack.layers]}
