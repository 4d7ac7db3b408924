import pytest
import torch

from crosshead.addons.studies.grounding import (
    BANDS,
    CHANCE,
    EXACT,
    INSIDE,
    PEAKS,
    UNSEEN_INSIDE,
    NounFindings,
    quantities,
    tables,
)
from crosshead.addons.vision.caption_maps import Grounding


def of(*inside: list[float]) -> Grounding:
    weights = torch.tensor(inside)
    return Grounding(weights, weights / 2, 0.1, 5)


VALID, TEST, NEW = (
    of([0.1, 0.9], [0.8, 0.2]),
    of([0.2, 0.6], [0.9, 0.1]),
    of([0.3, 0.4], [1.0, 0.0]),
)
FOUND = NounFindings(96.0, 40.0, VALID, TEST, NEW)


def test_the_head_is_chosen_on_the_validation_set() -> None:
    """Head 2 of layer 1 is best there, although head 1 of layer 2 is better on the test set."""
    found = quantities([FOUND])
    assert set(found) == {band.name for band in BANDS}
    assert (found[INSIDE], found[PEAKS]) == (pytest.approx(0.6), pytest.approx(0.3))
    assert found[UNSEEN_INSIDE] == pytest.approx(0.4)
    assert found[EXACT] == 96.0 and found[CHANCE] == pytest.approx(0.1)


def test_tables_show_layers_by_heads_and_seeds() -> None:
    weights, right = tables([FOUND, FOUND])
    assert weights.rows[1:] == [
        ["1", "0.20, 0.20", "0.60, 0.60"],
        ["2", "0.90, 0.90", "0.10, 0.10"],
    ]
    assert right.rows[1] == ["seen in training", "96.0, 96.0"]
