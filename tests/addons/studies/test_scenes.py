"""The studies of scenes: quantities from results, and the sides of the data."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.studies.scenes import (
    AMBIGUOUS_RIGHT,
    AMBIGUOUS_SHUFFLED,
    AMBIGUOUS_WITHOUT,
    CHANCE,
    EXACT,
    EXACT_GAIN,
    EXACT_SHUFFLED,
    EXACT_WITHOUT,
    GROUNDING_BANDS,
    INSIDE,
    MULTIMODAL_BANDS,
    PEAKS,
    RIGHT,
    SHUFFLED,
    UNSEEN,
    UNSEEN_INSIDE,
    WITHOUT,
    _write_sides,
    attended,
    exact_elsewhere,
    pair_quantities,
    runs_on,
)
from crosshead.addons.vision.attention_maps import Grounding
from crosshead.addons.vision.data.ambiguous import write_ambiguous
from tests.addons.studies.trials import full


def of(*inside: list[float]) -> Grounding:
    weights = torch.tensor(inside)
    return Grounding(weights, weights / 2, 0.1, 5)


VALID, TEST, NEW = (
    of([0.1, 0.9], [0.8, 0.2]),
    of([0.2, 0.6], [0.9, 0.1]),
    of([0.3, 0.4], [1.0, 0.0]),
)


def test_the_head_is_chosen_on_the_validation_set() -> None:
    """Head 2 of layer 1 is best there, although head 1 of layer 2 is better on the test set."""
    found = attended(VALID, TEST, NEW)
    assert {EXACT, UNSEEN, *found} == {band.name for band in GROUNDING_BANDS}
    assert (found[INSIDE], found[PEAKS]) == (pytest.approx(0.6), pytest.approx(0.3))
    assert found[UNSEEN_INSIDE] == pytest.approx(0.4) and found[CHANCE] == pytest.approx(0.1)


def test_every_band_has_its_quantity() -> None:
    found = pair_quantities(
        {RIGHT: 98.0, SHUFFLED: 48.0, WITHOUT: 51.0}, {RIGHT: 99.0, SHUFFLED: 96.0, WITHOUT: 100.0}
    )
    assert set(found) == {band.name for band in MULTIMODAL_BANDS}
    assert (found[AMBIGUOUS_RIGHT], found[AMBIGUOUS_SHUFFLED]) == (98.0, 48.0)
    assert found[AMBIGUOUS_WITHOUT] == 51.0
    assert (found[EXACT_GAIN], found[EXACT_SHUFFLED], found[EXACT_WITHOUT]) == (-1.0, 3.0, 100.0)


def test_only_sentences_without_the_ambiguous_word_are_compared_whole() -> None:
    sources = ["a red sign", "a red cross", "a blue cross"]
    assert exact_elsewhere(sources, ["x", "a", "x"], ["a", "a", "b"]) == 50


def test_both_models_have_one_shape_and_the_same_sentences(tmp_path: Path) -> None:
    write_ambiguous(tmp_path / "data", 24, train=6, others=2)
    _write_sides(tmp_path / "data")
    english = (tmp_path / "data" / "train.en").read_text().splitlines()
    assert len(english) == 6 and len((tmp_path / "data" / "valid.de").read_text().split("\n")) == 3
    beside, alone = (run.recipe for run in runs_on(full(tmp_path), tmp_path / "data", 1))
    assert (beside.model.architecture, alone.model.architecture) == ("multimodal", "transformer")
    for key in ("d_model", "encoder_layers", "decoder_layers", "norm", "tie"):
        assert getattr(beside.model, key) == getattr(alone.model, key)
    assert beside.train == alone.train and beside.tokenizer == alone.tokenizer
