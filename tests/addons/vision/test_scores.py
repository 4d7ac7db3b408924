import numpy as np
import pytest
import sacrebleu

from crosshead.addons.vision.data.labelled_images import LabelledImages
from crosshead.addons.vision.scores import (
    caption_scores,
    classification_scores,
    multi_bleu,
    nearest_references,
)
from crosshead.errors import DataError
from tests.addons.vision.test_image_classifier import classifier

CAPTIONS = ["a red circle above a blue square", "a green star", "two dogs run"] * 4
REFERENCES = [
    ["a red circle over a blue square", "there is a red circle above a blue square"],
    ["a green star", "there is a green star"],
    ["two dogs run in the grass"],
] * 4
STREAMS = [
    [several[0] for several in REFERENCES],
    [several[1] if len(several) > 1 else None for several in REFERENCES],
]


def test_captions_are_compared_with_all_their_references() -> None:
    named, chrf, exact = caption_scores(CAPTIONS, REFERENCES)
    expected = sacrebleu.corpus_bleu(CAPTIONS, STREAMS).score
    assert multi_bleu(CAPTIONS, REFERENCES) == named.value == pytest.approx(expected)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(CAPTIONS, STREAMS).score)
    first_alone = sacrebleu.corpus_bleu(CAPTIONS, STREAMS[:1]).score
    assert named.value != pytest.approx(first_alone)
    assert (named.metric, chrf.metric, exact.metric) == ("BLEU", "chrF2", "exact match, %")


def test_a_caption_matches_any_of_its_references() -> None:
    [exact] = caption_scores(CAPTIONS, REFERENCES, [])
    assert exact.value == pytest.approx(100 / 3) and exact.low < exact.value < exact.high
    [second] = caption_scores([several[-1] for several in REFERENCES], REFERENCES, [])
    assert (second.value, second.low, second.high) == (100, 100, 100)
    assert second.signature.startswith("bs:1000|seed:12345|per:text|version:crosshead-")
    with pytest.raises(DataError, match="the test set is empty"):
        caption_scores([], [])


def test_the_nearest_reference_is_an_equal_one_or_the_best_by_chrf() -> None:
    found = nearest_references(CAPTIONS[:3], REFERENCES[:3])
    assert found == [REFERENCES[0][1], "a green star", "two dogs run in the grass"]
    assert nearest_references(["a red circle over"], REFERENCES[:1]) == [REFERENCES[0][0]]
    assert nearest_references(["a b c"], [["ab c", "a b c"]]) == ["a b c"]


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
