from pathlib import Path
from typing import Any

import pytest

from crosshead.tasks.recipes import compose
from tests.data.written import write, write_series
from tests.tasks.reading import read_corpus


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
    assert corpus.series.names == ("load", "price")
    assert corpus.opening(None)[1:] == ["constant columns are left out: flat"]
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
    text, how = corpus.records(corpus.train, [3])
    assert text.startswith("time,load,price\n2024-01-01T03") and text.count("\n") == 57
    assert "56 rows" in how and corpus.origin(3) == "wave.csv, window from 2024-01-01 03:00:00"


def test_a_guessed_season_that_is_longer_than_training_is_none() -> None:
    lines = [f"2024-01-01 {row // 60:02}:{row % 60:02},{row % 7}" for row in range(400)]
    write(Path("wave.csv"), "\n".join(["date,load", *lines]))
    corpus = read_corpus(recipe())
    assert corpus.season == 1 and "; a season is 1 step" in corpus.opening(None)[0]
    assert corpus.opening(None)[1:] == [
        "no season: the usual 1,440 steps are not shorter than the training period of 280 rows"
    ]
    corpus = read_corpus(recipe(season=279))
    assert corpus.season == 279 and corpus.opening(None)[1:] == []
