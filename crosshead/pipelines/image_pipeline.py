"""The base of pipelines that read images."""

from typing import Any, cast

import numpy as np

from crosshead.data.images import ImageLike, pixels_of
from crosshead.pipelines.base import Pipeline


class ImagePipeline(Pipeline):
    """A pipeline whose bundle has an `image_size`."""

    def pixels(self, image: ImageLike) -> np.ndarray:
        """Return an image in the size that the model reads, "H W C", `uint8`.

        Args:
            image: The file of an image, an image of Pillow, or pixels "H W C" or "H W".

        Raises:
            DataError: If the file is no whole image, or the array has other axes.
        """
        return pixels_of(image, cast(Any, self.bundle.config).image_size)
