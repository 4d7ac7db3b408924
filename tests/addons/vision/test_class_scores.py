import numpy as np
import pytest

from crosshead.addons.vision.class_scores import classification_scores
from crosshead.addons.vision.data.labelled_images import LabelledImages
from crosshead.errors import DataError
from tests.addons.vision.test_image_classifier import classifier


def test_classes_are_scored_and_confusions_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    classify = classifier()
    labels, made = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2]), [0, 0, 1, 1, 1, 1, 2, 2, 2, 0]
    rows = iter(np.eye(3)[made] * 0.8 + 0.1)
    monkeypatch.setattr(classify, "probabilities", lambda pixels, check: rows)
    images = LabelledImages(np.zeros((10, 8, 8, 3), np.uint8), labels, [""] * 10)
    found = classification_scores(classify, images, "test")
    [accuracy] = found.scores  # three classes have no best five
    assert accuracy.value == 80.0
    assert (accuracy.low, accuracy.high) == pytest.approx((49.02, 94.33), abs=0.01)
    assert accuracy.signature.startswith("images:10|split:test|classes:3|pixels:8|interval:wilson")
    assert found.counts.tolist() == [[2, 1, 0], [0, 3, 0], [1, 0, 3]]
    assert found.confused() == [("high", "left", 1), ("low", "high", 1)]
    with pytest.raises(DataError, match="no images"):
        classification_scores(classify, LabelledImages(images.pixels[:0], labels[:0], []), "test")
