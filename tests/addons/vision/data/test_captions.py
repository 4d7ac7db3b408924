"""The rows of an epoch of images with captions."""

import numpy as np
import torch

from crosshead.addons.vision.data.captions import CaptionRows
from crosshead.addons.vision.data.images import as_floats
from crosshead.vocabulary import BOS, EOS, PAD


def test_rows_are_images_and_shifted_captions() -> None:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    rows = CaptionRows(pixels, [2, 0], [((), [5, 6]), ((), [7])], patches=4)
    batch = rows.collate([1, 0])
    images, target = batch.inputs
    assert torch.equal(images, as_floats(pixels[[0, 2]]))
    assert target.tolist() == [[BOS, 7, PAD], [BOS, 5, 6]]
    assert batch.target_output.tolist() == [[7, EOS, PAD], [5, 6, EOS]] and batch.count == 5
    assert rows.lengths.tolist() == [[5, 3], [5, 2]]
    assert sorted(np.concatenate(rows.plan(100, 1, 0)).tolist()) == [0, 1]
    assert rows.extent(0) == "4 patches and 2 tokens"
