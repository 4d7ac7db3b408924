"""The bases of pipelines that read images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from crosshead.addons.vision.data.images import ImageLike, as_floats, pixels_of
from crosshead.addons.vision.image_text_bundle import ImageTextBundle
from crosshead.addons.vision.models.image_encoder import ImageStackConfig
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind
from crosshead.tasks.pipeline import AttentionInputs, Pipeline, patch_names
from crosshead.text.batching import collate
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS


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

    def whole_images(self, files: Sequence[Path]) -> tuple[dict[Path, np.ndarray], dict[Path, str]]:
        """Return the pixels of each file, and why the other files cannot be read."""
        read: dict[Path, np.ndarray] = {}
        broken: dict[Path, str] = {}
        for file in files:
            try:
                read[file] = self.pixels(file)
            except DataError as error:
                broken[file] = str(error)
        return read, broken


class ImageTextPipeline(ImagePipeline):
    """A pipeline that reads an image as patches, and writes text."""

    bundle: ImageTextBundle

    def facts(self) -> list[list[str]]:
        """Return the size of the images, and further facts."""
        images = (
            f"{self.image_size} x {self.image_size} pixels, {self.rows} x {self.rows} patches; "
            "other images are scaled, and the middle is cut out"
        )
        return [["images", images], *super().facts()]

    def teacher_forced(
        self,
        pixels: np.ndarray,
        source: Sequence[int] | None,
        target: str | None,
        kind: AttentionKind,
    ) -> AttentionInputs:
        """Return the inputs with which the model reads an image and its texts at once.

        The memory is the source, or the patches without one. Patches are named by row and column.
        """
        if kind in ("encoder", "image") and target is not None:
            raise ConfigError("the encoder does not see the target; leave the target out")
        bundle = self.bundle
        [ids] = token_ids(bundle.target_tokenizer, [target or ""])
        batch = collate([(source or (), ids)], [0], bundle.specials.start).to(self.device)
        images = as_floats(pixels[None]).to(self.device)
        inputs = (images, *batch.inputs[source is None :])
        pieces, patches = bundle.target_tokenizer.pieces, patch_names(self.rows)
        if kind == "decoder":
            read = pieces([bundle.specials.start, *ids])
            return AttentionInputs(inputs, read, read)
        memory = patches
        if source is not None:
            memory = bundle.source_tokenizer.pieces([*source, EOS])
        queries = pieces([*ids, EOS]) if kind == "cross" else memory
        if source is None or kind == "image":
            return AttentionInputs(inputs, queries, patches, pixels)
        return AttentionInputs(inputs, queries, memory)
