"""The vision Transformer.

Axes: `B` images, `C` colours, `H W` height and width, `P` patches, `D` model width, `K` classes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from crosshead.addons.vision.models.classifier import Classifier, ClassifierConfig, zero_linear
from crosshead.addons.vision.models.image_encoder import ImageEncoder, ImageShape, ImageStackConfig
from crosshead.attention.attend import Attention
from crosshead.config import MOST_LAYERS
from crosshead.models.base import AttentionKind
from crosshead.models.stack import Activation


class VisionTransformerConfig(ImageStackConfig, ClassifierConfig):
    """The settings of a vision Transformer."""

    cannot: ClassVar[Mapping[str, str]] = {
        **ImageStackConfig.cannot,
        **dict.fromkeys(
            ("pattern", "radius", "dilation", "stride", "columns"),
            "patches attend to all patches; leave pattern and its settings out",
        ),
        "positions": "patches have patch_positions; leave positions out",
        "max_length": "the number of patches follows data.image_size; leave max_length out",
    }

    architecture: Literal["vit"] = "vit"
    """The architecture of the model."""

    layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Number of layers."""

    pool: Literal["class", "mean"] = "class"
    """The vector that is classified: the hidden state of a learned `class` token before the
    patches, or the `mean` of the hidden states of all patches (Dosovitskiy et al. 2021, section
    D.3)."""

    norm: Literal["post", "pre"] = "pre"
    """Layer norm before each sublayer (`pre`, as in the paper) or after each residual connection
    (`post`)."""

    activation: Activation = "gelu"
    """Activation function of the feed-forward network; the paper has `gelu`."""

    @property
    def most_positions(self) -> int | None:
        """None: the number of patches follows the images."""
        return None

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.layers

    def tokens(self, shape: ImageShape) -> int:
        """Return the number of patches of an image."""
        return shape.patches(self.patch_size)

    def shape(self) -> str:
        """Return the patches, the number of layers and the widths, as a clause."""
        patches = f"patches of {self.patch_size} x {self.patch_size} pixels"
        return f"{patches}, {self.layers_and_widths(str(self.layers))}"


class VisionTransformer(Classifier):
    """The vision Transformer: a linear layer on the encoder's class token, or on the mean.

    The linear layer begins at zero, so that all classes are equally probable at first.

    Args:
        config: The settings.
        shape: The sizes of the images.
        classes: Number of classes.

    Raises:
        ValueError: If the patches do not cover the image.

    Reference:
        Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1.
    """

    config: VisionTransformerConfig

    def __init__(self, config: VisionTransformerConfig, shape: ImageShape, classes: int) -> None:
        super().__init__(config, shape)
        self.encoder = ImageEncoder(
            config, shape, config.layers, class_token=config.pool == "class"
        )
        self.head = zero_linear(config.d_model, classes)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        """Return the logits of the classes, "B K"."""
        x = self.encoder(images)
        return self.head(x.mean(dim=1) if self.encoder.class_token is None else x[:, 0])

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the self-attention modules, the first layer first."""
        return {"encoder": [layer.attention for layer in self.encoder.stack.layers]}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of the encoder."""
        return self.encoder.stack.layers
