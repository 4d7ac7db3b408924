"""The rows of an epoch of images with captions or pairs."""

import numpy as np
import torch

from crosshead.addons.vision.data.captions import CaptionRows, ImagePairRows
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
    assert rows.extent(0) == "4 patches, 2 tokens"


def test_rows_are_images_sources_and_shifted_targets() -> None:
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    rows = ImagePairRows(pixels, [2, 0], [([8], [5, 6]), ([9, 9, 9], [7])], patches=4)
    batch = rows.collate([1, 0])
    images, source, target = batch.inputs
    assert torch.equal(images, as_floats(pixels[[0, 2]]))
    assert source.tolist() == [[9, 9, 9, EOS], [8, EOS, PAD, PAD]]
    assert target.tolist() == [[BOS, 7, PAD], [BOS, 5, 6]]
    assert batch.target_output.tolist() == [[7, EOS, PAD], [5, 6, EOS]]
    assert rows.lengths.tolist() == [[6, 3], [8, 2]]  # patches count as positions
    assert rows.extent(1) == "4 patches, 3 and 1 tokens"
