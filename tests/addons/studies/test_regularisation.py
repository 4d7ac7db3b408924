"""The study of regularisers: its runs, its quantities from results, its tables."""

from pathlib import Path

import pytest

from crosshead.addons.studies.effort import FULL, QUICK
from crosshead.addons.studies.regularisation import (
    BANDS,
    BASE,
    CHANGES,
    EMA,
    R_DROP,
    SAMPLING,
    SIMCUT,
    TrainedRun,
    plan,
    quantities,
    table,
)

FOUND = {
    BASE: [TrainedRun(36.0, 1.9, 9000.0), TrainedRun(37.0, 1.8, 11000.0)],
    SAMPLING: [TrainedRun(37.0, 1.9, 8000.0), TrainedRun(37.0, 1.9, 8000.0)],
    R_DROP: [TrainedRun(38.0, 1.7, 5000.0), TrainedRun(38.5, 1.7, 5000.0)],
    SIMCUT: [TrainedRun(38.0, 1.7, 4000.0), TrainedRun(38.0, 1.7, 4000.0)],
    EMA: [TrainedRun(36.4, 1.9, 10000.0), TrainedRun(36.4, 1.9, 10000.0)],
}


def test_every_band_has_its_quantity() -> None:
    found = quantities(FOUND, FULL)
    assert list(found) == [band.name for band in BANDS]
    assert list(found.values()) == pytest.approx([0.5, 1.75, 1.5, -0.1, 1.25, 2.0, 2.5, 1.0])


def test_nothing_is_compared_with_a_base_that_has_not_learned() -> None:
    found = quantities({**FOUND, BASE: [TrainedRun(2.0, 5.0, 10000.0)]}, FULL)
    said = [value for value in found.values() if isinstance(value, str)]
    assert said == ["BLEU of the base is below 5"] * 4


def test_a_few_updates_measure_nothing() -> None:
    assert all(isinstance(value, str) for value in quantities(FOUND, QUICK).values())


def test_variants_differ_in_what_they_change_and_in_their_place(tmp_path: Path) -> None:
    planned = plan(FULL, 1, tmp_path / "text", tmp_path / "runs")
    assert len(planned) == 2 * len(CHANGES)
    places = {corpus.place(recipe) for corpus, recipe in planned.values()}
    assert len(places) == len(planned)
    base = planned[BASE, 1000][1]
    for (variant, seed), (_, recipe) in planned.items():
        assert recipe.train.seed == seed and recipe.model == base.model
        changed = {
            f"{section}.{key}"
            for section in ("data", "tokenizer", "train", "decode")
            for key, value in getattr(recipe, section).model_dump().items()
            if key != "seed" and value != getattr(base, section).model_dump()[key]
        }
        stated = {f"{section}.{key}" for section, keys in CHANGES[variant].items() for key in keys}
        assert changed == stated


def test_the_table_has_a_row_for_each_variant() -> None:
    rows = table("captions", FOUND).rows
    assert rows[1] == [BASE, "36.00, 37.00", "1.900, 1.800", "9,000, 11,000"]
    assert [row[0] for row in rows[1:]] == list(CHANGES)
