"""The base of pipelines that read images."""

from typing import Any, cast

import numpy as np

from crosshead.addons.vision.data.images import ImageLike, pixels_of
from crosshead.addons.vision.models.image_encoder import ImageStackConfig
from crosshead.tasks.pipeline import Pipeline


class ImagePipeline(Pipeline):
    """A pipeline whose bundle has an `image_size`."""

    @property
    def image_size(self) -> int:
        """The height and width of the images that the model reads."""
        return int(cast(Any, self.bundle.config).image_size)

    @property
    def rows(self) -> int:
        """The number of rows of patches, and of columns; the model reads patches."""
        config = cast(Any, self.bundle.model).config
        assert isinstance(config, ImageStackConfig)
        return self.image_size // config.patch_size

    def pixels(self, image: ImageLike) -> np.ndarray:
        """Return an image in the size that the model reads, "H W C", `uint8`."""
        return pixels_of(image, self.image_size)
