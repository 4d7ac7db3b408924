"""The captioner: a Transformer whose source are the patches of an image."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from crosshead.addons.vision.models.image_encoder import ImageEncoder, ImageShape, ImageStackConfig
from crosshead.config import MOST_LAYERS
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.layers.encoder import EncoderLayer
from crosshead.models.base import TokenModelConfig
from crosshead.models.stack import added_positions, decoder_stack
from crosshead.models.transformer import EncoderDecoder


class CaptionerConfig(ImageStackConfig, TokenModelConfig):
    """The shape of a captioner."""

    task: ClassVar[str] = "captioning"
    vocabularies: ClassVar[int] = 1

    architecture: Literal["captioner"] = "captioner"
    """The architecture of the model."""

    encoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Layers of the encoder of patches."""

    decoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Layers of the decoder of tokens."""

    tie: Literal["two-way", "none"] = "two-way"
    """The matrices that are shared: `two-way` shares the embedding of tokens and the output
    projection, `none` shares none."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.encoder_layers + self.decoder_layers

    def shape(self) -> str:
        """Return the number of layers, the widths and the size of a patch, as a clause."""
        widths = self.layers_and_widths(f"{self.encoder_layers}+{self.decoder_layers}")
        return f"{widths}, patches of {self.patch_size}"


class Captioner(EncoderDecoder):
    """An encoder of image patches, and a decoder of tokens that attends to them.

    Args:
        config: The shape.
        images: The sizes of the images.
        vocabulary: Number of tokens.

    Reference:
        Xu et al. 2015, section 3.1 (captions from the places of an image); Dosovitskiy et al. 2021,
        section 3.1 (patches); Vaswani et al. 2017, section 3.1 (the decoder).
    """

    def __init__(self, config: CaptionerConfig, images: ImageShape, vocabulary: int) -> None:
        super().__init__()
        self.config: CaptionerConfig = config
        draw = partial(embedding_weight, d_model=config.d_model)
        weight = draw(vocabulary)
        self.encoder = ImageEncoder(config, images, config.encoder_layers, class_token=False)
        self.target_embeddings = Embeddings(weight, added_positions(config), config.dropout)
        self.decoder = decoder_stack(config, config.decoder_layers)
        self.projection = nn.Linear(config.d_model, vocabulary, bias=False)
        self.projection.weight = draw(vocabulary) if config.tie == "none" else weight

    def encode(self, images: Float[Tensor, "B C H W"]) -> tuple[Float[Tensor, "B P D"], None]:
        """Encode images.

        Args:
            images: The images, "B C H W", from -1 to 1.

        Returns:
            The hidden state of each patch, "B P D", and None, because there is no padding.
        """
        return self.encoder(images), None

    def encoder_layers(self) -> Sequence[EncoderLayer]:
        """Return the layers of the encoder of patches, the first one first."""
        return list(self.encoder.stack.layers)
