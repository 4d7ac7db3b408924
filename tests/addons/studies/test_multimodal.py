"""The study of images beside sentences: quantities from results, gates, the sides of the data."""

from pathlib import Path

import pytest

from crosshead.addons.studies.effort import FULL, QUICK
from crosshead.addons.studies.multimodal import (
    AMBIGUOUS_RIGHT,
    AMBIGUOUS_SHUFFLED,
    AMBIGUOUS_WITHOUT,
    BANDS,
    EXACT_GAIN,
    EXACT_SHUFFLED,
    EXACT_WITHOUT,
    GATE,
    OTHER_GATE,
    RIGHT,
    SHUFFLED,
    WITHOUT,
    PairFindings,
    _recipes,
    _write_sides,
    exact_elsewhere,
    gates,
    quantities,
    tables,
)
from crosshead.addons.vision.data.ambiguous import is_ambiguous, write_ambiguous
from crosshead.addons.vision.data.caption_sets import Caption, CaptionSet, LeftOutCaptions
from tests.addons.vision.small_captioners import pixels
from tests.addons.vision.small_multimodal import translator

FOUND = PairFindings(
    {RIGHT: 98.0, SHUFFLED: 48.0, WITHOUT: 51.0},
    {RIGHT: 99.0, SHUFFLED: 96.0, WITHOUT: 100.0},
    0.6,
    0.2,
)


def test_every_band_has_its_quantity() -> None:
    other = FOUND._replace(words={RIGHT: 96.0, SHUFFLED: 50.0, WITHOUT: 49.0})
    found = quantities([FOUND, other], FULL)
    assert set(found) == {band.name for band in BANDS}
    assert (found[AMBIGUOUS_RIGHT], found[AMBIGUOUS_SHUFFLED]) == (97.0, 49.0)
    assert (found[AMBIGUOUS_WITHOUT], found[EXACT_WITHOUT]) == (50.0, 100.0)
    assert (found[EXACT_GAIN], found[EXACT_SHUFFLED]) == (-1.0, 3.0)
    assert (found[GATE], found[OTHER_GATE]) == (pytest.approx(0.6), pytest.approx(0.2))


def test_a_few_updates_measure_nothing() -> None:
    assert all(isinstance(value, str) for value in quantities([FOUND], QUICK).values())


def test_only_sentences_without_the_ambiguous_word_are_compared_whole() -> None:
    sources = ["a red sign", "a red cross", "a blue cross"]
    assert exact_elsewhere(sources, ["x", "a", "x"], ["a", "a", "b"]) == 50


def test_gates_are_those_of_the_ambiguous_word_and_of_the_words_beside_it() -> None:
    beside, text = translator(), "a red sign above a small blue cross"
    assert is_ambiguous(text)
    images = pixels(0)[None]
    plain = Caption(0, "ein grünes Quadrat", "f", 1, "a green square")
    signs = Caption(0, "ein roter Kreis", "f", 2, text)
    test = CaptionSet(images, ["0.png"], [plain, signs], LeftOutCaptions())
    found = beside.gates(images[0], text)
    gate, other = gates(beside, test)
    assert gate == pytest.approx(found[2][1])
    others = [value for place, (_, value) in enumerate(found[:-1]) if place != 2]
    assert other == pytest.approx(sum(others) / len(others))


def test_both_models_have_one_shape_and_the_same_sentences(tmp_path: Path) -> None:
    write_ambiguous(tmp_path / "data", 24, train=6, others=2)
    _write_sides(tmp_path / "data")
    english = (tmp_path / "data" / "train.en").read_text().splitlines()
    assert len(english) == 6 and len((tmp_path / "data" / "valid.de").read_text().split("\n")) == 3
    beside, alone = _recipes(tmp_path, FULL, 1)
    assert (beside.model.architecture, alone.model.architecture) == ("multimodal", "transformer")
    for key in ("d_model", "encoder_layers", "decoder_layers", "norm", "tie"):
        assert getattr(beside.model, key) == getattr(alone.model, key)
    assert beside.train == alone.train and beside.tokenizer == alone.tokenizer


def test_tables_have_a_row_for_each_image() -> None:
    [table] = tables([FOUND, FOUND])
    assert table.rows[1] == [RIGHT, "98.0, 98.0", "99.0, 99.0"]
    assert [row[0] for row in table.rows[1:]] == [RIGHT, SHUFFLED, WITHOUT]
