"""Image classifiers: models from images to classes; their common base.

Axes: `B` images, `C` colours, `H W` height and width, `K` classes.
"""

from abc import abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.models.base import Model, ModelConfig
from crosshead.models.registry import MODELS


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
