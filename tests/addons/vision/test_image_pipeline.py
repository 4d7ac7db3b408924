"""The size in which pipelines read images."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.images import encode_png
from crosshead.addons.vision.image_classifier import ImageClassifier
from crosshead.addons.vision.image_pipeline import ImagePipeline
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.errors import DataError


@pytest.mark.parametrize("kind", [ImageClassifier, ImageCaptioner, MultimodalTranslator])
def test_images_get_the_size_of_the_bundle(kind: type[ImagePipeline], tmp_path: Path) -> None:
    config = SimpleNamespace(image_size=8)
    pipeline = kind(SimpleNamespace(config=config, target_tokenizer=None))
    grey = np.full((16, 24, 3), 77, np.uint8)
    file = tmp_path / "grey.png"
    file.write_bytes(encode_png(grey))
    for image in (grey, str(file)):
        found = pipeline.pixels(image)
        assert found.shape == (8, 8, 3) and found.dtype == np.uint8 and (found == 77).all()
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(DataError, match=r"grey\.png: not a whole image"):
        pipeline.pixels(str(file))
