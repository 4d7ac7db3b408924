"""The encoder-only Transformer: it reads a text from both sides, and says what is hidden in it."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from crosshead.attention.attend import Attention
from crosshead.attention.masks import padding_mask
from crosshead.models.base import AttentionKind, Task
from crosshead.models.stack import Positions, branch_gain, self_attention, self_mask
from crosshead.models.text_stack import TextStack, TextStackConfig
from crosshead.vocabulary import PAD


class EncoderConfig(TextStackConfig):
    """The shape of an encoder-only Transformer."""

    task: ClassVar[Task] = "masked"

    architecture: Literal["encoder"] = "encoder"
    positions: Positions = "rotary"


class TransformerEncoder(TextStack):
    """The encoder of Vaswani et al. 2017 by itself, as a masked language model.

    Devlin et al. 2019 (BERT), section 3.1, task 1. A position attends to what stands before and
    after it: it finds what is hidden in a text, and cannot go on with one.
    """

    def __init__(self, config: EncoderConfig, vocabulary: int) -> None:
        super().__init__(
            config,
            vocabulary,
            lambda: self_attention(config, branch_gain(config.layers), causal=False),
        )

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the last hidden states of a padded text, hidden tokens included."""
        batch, length = tokens.shape
        mask = self_mask(self.config, padding_mask(tokens != PAD))
        seen = mask.evaluate(length, length, batch=batch, device=tokens.device)
        return self.stack(self.embeddings(tokens), seen)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"encoder": [layer.attention for layer in self.stack.layers]}
