"""Image classifiers: their common base, and a small convolutional network as the baseline.

Axes: `B` images, `C` colours, `H W` height and width, `K` classes.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import ClassVar, Literal, Self

from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from crosshead.addons.vision.models.image_encoder import ImageShape, convolution, for_convolutions
from crosshead.attention.dropout import Dropout
from crosshead.config import MOST_WIDTH
from crosshead.models.base import Model, ModelConfig
from crosshead.models.registry import MODELS

GROUPS = 8
"""The number of groups of a group norm (Wu and He 2018)."""


class ClassifierConfig(ModelConfig):
    """The settings of every image classifier."""

    task: ClassVar[str] = "classification"
    vocabularies: ClassVar[int] = 0

    @abstractmethod
    def tokens(self, shape: ImageShape) -> int:
        """Return the number of patches of an image, which `train.batch_tokens` counts.

        Args:
            shape: The sizes of the images.

        Raises:
            ValueError: If the model cannot read images of this size.
        """


class Classifier(Model):
    """The base of image classifiers.

    Args:
        config: The settings.
        shape: The sizes of the images.
    """

    def __init__(self, config: ClassifierConfig, shape: ImageShape) -> None:
        super().__init__()
        self.config: ClassifierConfig = config
        self.shape = shape

    @abstractmethod
    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        """Return the logits of the classes.

        Args:
            images: The images, "B C H W", from -1 to 1.

        Returns:
            Logits, "B K".
        """


def zero_linear(width: int, outputs: int) -> nn.Linear:
    """Return a linear layer whose weights are zero."""
    layer = nn.Linear(width, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def build_classifier(config: ModelConfig, shape: ImageShape, classes: int) -> Classifier:
    """Build a freshly initialised classifier of images, in training mode.

    Args:
        config: The configuration.
        shape: The sizes of the images.
        classes: The number of classes.

    Returns:
        The model.
    """
    assert isinstance(config, ClassifierConfig)
    model = MODELS[config.architecture](config, shape, classes)
    assert isinstance(model, Classifier)
    return model


class ConvNetConfig(ClassifierConfig):
    """The settings of the convolutional network."""

    cannot: ClassVar[Mapping[str, str]] = {
        **ClassifierConfig.cannot,
        "heads": "convnet has no attention; leave heads out",
    }

    architecture: Literal["convnet"] = "convnet"
    """The architecture of the model."""

    d_model: int = Field(256, ge=8, le=MOST_WIDTH)
    """Width of the last block. Each block before it has half the width of the block after it."""

    blocks: int = Field(3, ge=1, le=10)
    """Number of blocks, each with two 3 x 3 convolutions, and a pooling that halves the image."""

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if self.d_model % (GROUPS << self.blocks - 1):
            raise ValueError(
                f"d_model {self.d_model} is not divisible by {GROUPS << self.blocks - 1}, which "
                f"{self.blocks} blocks with {GROUPS} groups need; choose another one"
            )
        return self

    def tokens(self, shape: ImageShape) -> int:
        """Return the number of squares of 4 x 4 pixels, the patches of a vision Transformer."""
        if shape.size >> self.blocks < 1:
            raise ValueError(
                f"{self.blocks} blocks halve images of {shape.size} pixels to nothing; lower "
                "model.blocks or raise data.image_size"
            )
        return max(1, shape.size // 4) ** 2

    @property
    def depth(self) -> int:
        """The number of blocks."""
        return self.blocks

    def shape(self) -> str:
        """Return the blocks and the width, as a clause."""
        return f"{self.blocks} blocks of two 3 x 3 convolutions, d_model {self.d_model}"


class ConvNet(Classifier):
    """Blocks of two 3 x 3 convolutions with group norm, and a linear layer on their mean.

    The norm is group norm. Batch norm would make the result depend on how a batch is split into
    parts, and its running statistics are no weights: replicas and averaged checkpoints would not
    share them.

    Args:
        config: The settings.
        shape: The sizes of the images.
        classes: Number of classes.

    Raises:
        ValueError: If the blocks halve the images to nothing.

    Reference:
        Simonyan and Zisserman 2015, section 2.1 (blocks); Wu and He 2018, "Group Normalization".
    """

    config: ConvNetConfig

    def __init__(self, config: ConvNetConfig, shape: ImageShape, classes: int) -> None:
        super().__init__(config, shape)
        config.tokens(shape)
        halvings = range(config.blocks - 1, -1, -1)
        widths = [shape.channels, *(config.d_model >> each for each in halvings)]
        self.blocks = nn.ModuleList(block(*each) for each in pairwise(widths))
        self.dropout = Dropout(config.dropout)
        self.head = zero_linear(config.d_model, classes)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        """Return the logits of the classes, "B K"."""
        x = for_convolutions(images, self.head.weight.dtype)
        for each in self.blocks:
            x = each(x)
        return self.head(self.dropout(x.mean(dim=(2, 3))))

    def layers(self) -> Iterable[nn.Module]:
        """Return the blocks."""
        return self.blocks


def block(before: int, width: int) -> nn.Sequential:
    """Return a block that halves height and width."""
    layers = convolution(before, width, GROUPS) + convolution(width, width, GROUPS)
    return nn.Sequential(*layers, nn.MaxPool2d(2))
