"""The Transformer for multimodal translation: a sentence, and an image beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from crosshead.addons.vision.models.image_encoder import ImageEncoder, ImageShape, ImageStackConfig
from crosshead.attention.attend import Attention
from crosshead.config import MOST_LAYERS
from crosshead.models.base import AttentionKind
from crosshead.models.stack import StackConfig, cross_attention
from crosshead.models.transformer import Transformer, TransformerConfig, TransformerState


class MultimodalConfig(ImageStackConfig, TransformerConfig):
    """The shape of a Transformer that reads a sentence and an image."""

    task: ClassVar[str] = "multimodal"

    architecture: Literal["multimodal"] = "multimodal"  # type: ignore[assignment]
    """The architecture of the model."""

    image_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    """Layers of the encoder of patches."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return super().depth + self.image_layers

    def shape(self) -> str:
        """Return the number of layers, the widths and the size of a patch, as a clause."""
        return f"{super().shape()}, {self.image_layers} over patches of {self.patch_size}"


@dataclass(frozen=True)
class ImagesAndTokens:
    """The sources of a search: an image and a sentence each."""

    images: Float[Tensor, "B C H W"]
    """The images, from -1 to 1."""
    tokens: Int[Tensor, "B S"]
    """Padded token ids."""

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self.tokens)

    @property
    def device(self) -> torch.device:
        """The device of the sources."""
        return self.tokens.device


class SelectiveFusion(nn.Module):
    """Attention from a sentence to the patches of an image, and a gate that mixes the result in.

    With hidden states H of the sentence and A of its attention to the patches, the result is
    (1 - G) * H + G * A, where the gate G = sigmoid(U H + V A + b) has a number for each position
    and each width. An image that is of no use can be ignored: the gate is then near 0.

    Reference:
        Li et al. 2022, "On Vision Features in Multimodal Machine Translation" (selective
        attention); Wu et al. 2021, "Good for Misconceived Reasons", section 2.2 (the gate).
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.attention = cross_attention(config, 1.0)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(
        self, text: Float[Tensor, "B S D"], patches: Float[Tensor, "B P D"]
    ) -> Float[Tensor, "B S D"]:
        """Return the hidden states of a sentence with those of its image mixed in, "B S D"."""
        seen, gates = self.parts(text, patches)
        return text + gates * (seen - text)

    def parts(
        self, text: Float[Tensor, "B S D"], patches: Float[Tensor, "B P D"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"]]:
        """Return what each position sees of the image, and its gates from 0 to 1."""
        seen = self.attention(text, self.attention.project(patches))
        return seen, torch.sigmoid(self.gate(torch.cat([text, seen], dim=-1)))


class MultimodalTransformer(Transformer):
    """A Transformer whose source is a sentence beside an image.

    The encoder of the sentence and the decoder are those of `Transformer`. An encoder of patches
    reads the image, and `SelectiveFusion` mixes it into the sentence before the decoder attends to
    it. So the memory has a position for each source token, as without an image.

    Args:
        config: The shape.
        images: The sizes of the images.
        source_vocabulary: Number of source tokens.
        target_vocabulary: Number of target tokens.

    Reference:
        Li et al. 2022, "On Vision Features in Multimodal Machine Translation"; Dosovitskiy et al.
        2021, section 3.1 (patches); Vaswani et al. 2017, section 3, Figure 1.
    """

    config: MultimodalConfig

    def __init__(
        self,
        config: MultimodalConfig,
        images: ImageShape,
        source_vocabulary: int,
        target_vocabulary: int,
    ) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary)
        self.image_encoder = ImageEncoder(config, images, config.image_layers, class_token=False)
        self.fusion = SelectiveFusion(config)

    def encode(  # type: ignore[override]  # a source has two parts
        self, images: Float[Tensor, "B C H W"], source: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 1 S"]]:
        """Encode padded sentences and their images.

        Args:
            images: The images, "B C H W", from -1 to 1.
            source: Token ids, "B S".

        Returns:
            The memory, "B S D", and its padding mask, "B 1 1 S".
        """
        text, mask = super().encode(source)
        return self.fusion(text, self.image_encoder(images)), mask

    def start(self, source: ImagesAndTokens) -> TransformerState:
        """Return the state before the first token, one row per source.

        Args:
            source: The sentences and their images.
        """
        return self.begin(*self.encode(source.images, source.tokens))

    def gates(
        self, images: Float[Tensor, "B C H W"], source: Int[Tensor, "B S"]
    ) -> Float[Tensor, "B S"]:
        """Return the mean gate of each source position: 0 is the text alone, 1 the image.

        Args:
            images: The images, "B C H W", from -1 to 1.
            source: Token ids, "B S".

        Returns:
            The mean over the widths of each position's gates, "B S".
        """
        text, _ = super().encode(source)
        return self.fusion.parts(text, self.image_encoder(images))[1].mean(dim=-1)

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention of a Transformer, and of the sentence to the image."""
        return {**super().attentions(), "image": [self.fusion.attention]}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of all three stacks."""
        return (*super().layers(), *self.image_encoder.stack.layers)
