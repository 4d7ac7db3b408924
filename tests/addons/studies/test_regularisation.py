"""The study of regularisers: its runs, and its quantities from results."""

from pathlib import Path

import pytest

from crosshead.addons.studies.captions import text_of
from crosshead.addons.studies.regularisation import (
    BANDS,
    BASE,
    CHANGES,
    EMA,
    R_DROP,
    SAMPLING,
    SIMCUT,
    plan,
    quantities,
)
from tests.addons.studies.trials import full

FOUND = {
    BASE: [36.0, 37.0],
    SAMPLING: [37.0, 37.0],
    R_DROP: [38.0, 38.5],
    SIMCUT: [38.0, 38.0],
    EMA: [36.4, 36.4],
}


def test_every_band_has_its_quantity() -> None:
    found = quantities(FOUND)
    assert list(found) == [band.name for band in BANDS]
    assert list(found.values()) == pytest.approx([0.5, 1.75, 1.5, -0.1])


def test_nothing_is_compared_with_a_base_that_has_not_learned() -> None:
    found = quantities({**FOUND, BASE: [2.0]})
    assert list(found.values()) == ["BLEU of the base is below 5"] * 4


def test_variants_differ_in_what_they_change_and_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / "train.en").write_text("")
    trial = full(tmp_path)
    planned = {
        (variant, seed): plan(trial, text_of(trial), variant, seed)
        for variant in CHANGES
        for seed in trial.seeds()
    }
    assert len(planned) == 2 * len(CHANGES)
    places = {run.place for run in planned.values()}
    assert len(places) == len(planned)
    base = planned[BASE, 1000].recipe
    for (variant, seed), run in planned.items():
        recipe = run.recipe
        assert recipe.train.seed == seed and recipe.model == base.model
        changed = {
            f"{section}.{key}"
            for section in ("data", "tokenizer", "train", "decode")
            for key, value in getattr(recipe, section).model_dump().items()
            if key != "seed" and value != getattr(base, section).model_dump()[key]
        }
        stated = {f"{section}.{key}" for section, keys in CHANGES[variant].items() for key in keys}
        assert changed == stated
