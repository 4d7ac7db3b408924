"""The study of images beside sentences: quantities from results, the sides of the data."""

from pathlib import Path

from crosshead.addons.studies.multimodal import (
    AMBIGUOUS_RIGHT,
    AMBIGUOUS_SHUFFLED,
    AMBIGUOUS_WITHOUT,
    BANDS,
    EXACT_GAIN,
    EXACT_SHUFFLED,
    RIGHT,
    SHUFFLED,
    WITHOUT,
    PairFindings,
    _write_sides,
    exact_elsewhere,
    quantities,
    runs_on,
    tables,
)
from crosshead.addons.vision.data.ambiguous import write_ambiguous
from tests.addons.studies.trials import full

FOUND = PairFindings(
    {RIGHT: 98.0, SHUFFLED: 48.0, WITHOUT: 51.0},
    {RIGHT: 99.0, SHUFFLED: 96.0, WITHOUT: 100.0},
)


def test_every_band_has_its_quantity() -> None:
    other = FOUND._replace(words={RIGHT: 96.0, SHUFFLED: 50.0, WITHOUT: 49.0})
    found = quantities([FOUND, other])
    assert set(found) == {band.name for band in BANDS}
    assert (found[AMBIGUOUS_RIGHT], found[AMBIGUOUS_SHUFFLED]) == (97.0, 49.0)
    assert found[AMBIGUOUS_WITHOUT] == 50.0
    assert (found[EXACT_GAIN], found[EXACT_SHUFFLED]) == (-1.0, 3.0)


def test_only_sentences_without_the_ambiguous_word_are_compared_whole() -> None:
    sources = ["a red sign", "a red cross", "a blue cross"]
    assert exact_elsewhere(sources, ["x", "a", "x"], ["a", "a", "b"]) == 50


def test_both_models_have_one_shape_and_the_same_sentences(tmp_path: Path) -> None:
    write_ambiguous(tmp_path / "data", 24, train=6, others=2)
    _write_sides(tmp_path / "data")
    english = (tmp_path / "data" / "train.en").read_text().splitlines()
    assert len(english) == 6 and len((tmp_path / "data" / "valid.de").read_text().split("\n")) == 3
    beside, alone = (run.recipe for run in runs_on(tmp_path, full(tmp_path), 1))
    assert (beside.model.architecture, alone.model.architecture) == ("multimodal", "transformer")
    for key in ("d_model", "encoder_layers", "decoder_layers", "norm", "tie"):
        assert getattr(beside.model, key) == getattr(alone.model, key)
    assert beside.train == alone.train and beside.tokenizer == alone.tokenizer


def test_tables_have_a_row_for_each_image() -> None:
    [table] = tables([FOUND, FOUND])
    assert table.rows[1] == [RIGHT, "98.0, 98.0", "99.0, 99.0"]
    assert [row[0] for row in table.rows[1:]] == [RIGHT, SHUFFLED, WITHOUT]
