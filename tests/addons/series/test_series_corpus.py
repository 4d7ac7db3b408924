from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosshead.errors import DataError
from crosshead.recipe.compose import compose
from tests.tasks.reading import read_corpus
from tests.text.written import write, write_series


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_series(Path("wave.csv"), rows=400)


def recipe(**data: Any) -> Any:
    data = {"series": ["wave.csv"], "horizon": 8, "context": 48, **data}
    return compose(flags={"data": data})


def test_constant_columns_are_left_out_and_counted() -> None:
    lines = Path("wave.csv").read_text().splitlines()
    write(Path("wave.csv"), "\n".join([f"{lines[0]},flat", *(f"{line},7" for line in lines[1:])]))
    corpus = read_corpus(recipe())
    assert corpus.series[0].names == ("load", "price")
    assert corpus.opening(recipe().data)[1:] == ["constant columns are left out: flat"]
    assert corpus.train.values.shape == (400, 2)


def test_periods_and_scale_are_those_of_the_recipe() -> None:
    corpus = read_corpus(recipe())
    assert [len(each.starts) for each in (corpus.train, corpus.valid, corpus.test)] == [225, 33, 73]
    rows = corpus.train.values[:280].numpy()
    assert rows.mean(0) == pytest.approx([0, 0], abs=1e-4)
    assert rows.std(0) == pytest.approx([1, 1], abs=1e-4)
    assert read_corpus(recipe(split="300/100/0 rows")).test.starts.size == 0
    assert corpus.sha256() == read_corpus(recipe()).sha256()
    assert corpus.sha256() != read_corpus(recipe(split="280/30/90 rows")).sha256()
    assert corpus.origin(3) == "wave.csv, window from 2024-01-01 03:00:00"


def test_a_guessed_season_that_is_longer_than_training_is_none() -> None:
    lines = [f"2024-01-01 {row // 60:02}:{row % 60:02},{row % 7}" for row in range(400)]
    write(Path("wave.csv"), "\n".join(["date,load", *lines]))
    corpus = read_corpus(recipe())
    assert corpus.season == 1 and "; a season is 1 step" in corpus.opening(recipe().data)[0]
    assert corpus.opening(recipe().data)[1:] == [
        "no season: the usual 1,440 steps are not shorter than the 280 rows of training"
    ]
    corpus = read_corpus(recipe(season=279))
    assert corpus.season == 279 and corpus.opening(recipe().data)[1:] == []


LONG = [("a", 0, 400, 1.0), ("b", 100, 300, 1000.0), ("c", 50, 30, 1.0), ("d", 0, 200, 0.0)]
"""The name of a series, its first hour, its number of rows and its size; the last is constant."""


def write_long(path: Path, by_time: bool = False) -> Path:
    rows = [
        (key, hour, f"{size * (10 + hour % 24):.2f}")
        for key, first, count, size in LONG
        for hour in range(first, first + count)
    ]
    if by_time:
        rows.sort(key=lambda row: row[1])
    times = np.datetime64("2024-01-01", "s") + np.arange(401) * np.timedelta64(1, "h")
    lines = [f"{key},{times[hour]},{value}" for key, hour, value in rows]
    return write(path, "\n".join(["unique_id,ds,y", *lines]))


@pytest.mark.parametrize("by_time", [False, True])
def test_one_model_is_trained_on_all_series_of_a_long_table(by_time: bool) -> None:
    write_long(Path("long.csv"), by_time)
    corpus = read_corpus(recipe(series=["long.csv"]))
    assert [each.key for each in corpus.series] == ["a", "b"]
    assert [(each.id, each.time, each.names) for each in corpus.series] == [
        ("unique_id", "ds", ("y",))
    ] * 2
    # Each series has its own periods, windows that stay in it, and its own scale.
    assert [len(each) for each in (corpus.train, corpus.valid, corpus.test)] == [380, 56, 126]
    for part in (corpus.train, corpus.valid, corpus.test):
        for window in range(len(part)):
            series, begin = part.place(window)
            steps = slice(begin, begin + 56)
            scaled = part.parts[part.series[window]][1].scaled(series.values[steps])
            batch = part.collate([window])
            found = torch.cat([batch.context, batch.target], dim=1)[0].numpy()
            assert found == pytest.approx(scaled.astype(np.float32))
    first, second = (scale for _, scale in corpus.train.parts)
    assert second.deviation == pytest.approx(1000 * first.deviation, rel=0.03)
    assert corpus.train.values[:280].std() == pytest.approx(1, abs=0.01)
    notes = "; ".join(corpus.opening(recipe().data))
    assert notes.startswith("2 series of unique_id, 700 rows, one every 1 hour, 2024-01-01 to ")
    assert "series c left out: wave" not in notes and "series c left out" in notes
    assert "series d left out" in notes and "'y' is constant" in notes
    assert corpus.origin(379).startswith("long.csv, series b, window from 2024-01-")
    config = corpus.bundle_config(recipe(series=["long.csv"]), 48)
    assert (config.id, config.keys, len(config.means)) == ("unique_id", ["a", "b"], 2)


def test_another_column_of_names_is_given() -> None:
    text = (
        write_long(Path("long.csv"))
        .read_text()
        .replace("unique_id", "shop")
        .replace("y", "sales", 1)
    )
    write(Path("long.csv"), text.replace("\na,", "\n7,").replace("\nb,", "\n8,"))
    with pytest.raises(DataError, match=r"name the column that tells series apart \(--id\)"):
        read_corpus(recipe(series=["long.csv"]))
    assert [each.key for each in read_corpus(recipe(series=["long.csv"], id="shop")).series] == [
        "7", "8",
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"there is no column of --id 'shp'; did you mean 'shop'"):
        read_corpus(recipe(series=["long.csv"], id="shp"))
