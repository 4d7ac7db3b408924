import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import crosshead
from crosshead.addons.studies import runs
from crosshead.addons.studies.captions import captions_of, transformer
from crosshead.addons.studies.conduct import STUDIES
from crosshead.addons.studies.runs import (
    THIS_CODE,
    MissingDataError,
    Run,
    data_at,
    digest,
    means,
    results,
    run_of,
    stored,
)
from crosshead.addons.studies.study import Trial
from crosshead.bundle.places import CHECKPOINTS, WEIGHTS
from tests.addons.studies.trials import full, quick
from tests.parameters import mostly_slow


def small(folder: Path) -> Run:
    return captions_of(quick(folder)).run(quick(folder), transformer(quick=True), 1)


def test_the_place_of_a_run_depends_on_its_settings_and_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = captions_of(quick(tmp_path))
    trial = quick(tmp_path)
    made = [corpus.run(trial, transformer(heads), seed) for heads in (1, 4) for seed in (1, 2)]
    places = {run.place for run in made}
    assert len(places) == 4 and made[0].place == corpus.run(trial, transformer(1), 1).place
    assert list(trial.kept) == [run.finished for run in made]
    monkeypatch.setattr(runs, "THIS_CODE", "another")
    assert not places & {run.place for run in made}


def test_settings_of_all_runs_give_way_to_those_of_one(tmp_path: Path) -> None:
    sections = {"model": {"architecture": "dlinear"}, "data": {"series": ["x.csv"]}}
    alike, own = (
        run_of(quick(tmp_path), "runs", train, **sections).recipe.train
        for train in ({}, {"precision": "bfloat16"})
    )
    assert (alike.precision, own.precision) == ("float32", "bfloat16")
    assert alike.threads == own.threads == 1


@pytest.mark.slow
def test_a_run_is_trained_once_and_gone_on_with_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls, train = small(tmp_path), list[str](), runs.train

    def watched(*arguments: Any, **named: Any) -> None:
        calls.append("gone on with" if named["resume"] else "begun")
        train(*arguments, **named)

    monkeypatch.setattr(runs, "train", watched)
    assert run.trained() == run.place and calls == ["begun"]
    weights = (run.place / WEIGHTS).read_bytes()
    run.trained()
    assert calls == ["begun"]
    run.finished.unlink()  # as if it had been cut off: checkpoints are there
    run.trained()
    assert calls == ["begun", "gone on with"]
    run.finished.unlink()
    shutil.rmtree(run.place / CHECKPOINTS)  # as if before the first: it begins again
    run.trained()
    assert calls == ["begun", "gone on with", "begun"]
    assert (run.place / WEIGHTS).read_bytes() == weights


@pytest.mark.parametrize(
    "name", mostly_slow(["grounding", "multimodal", "vision", "linear", "patches"], ["grounding"])
)
def test_a_study_that_is_repeated_trains_nothing_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = quick(tmp_path), quick(tmp_path)
    STUDIES[name].run(first)
    assert any(path.is_file() for path in first.kept)
    monkeypatch.setattr(runs, "train", None)
    STUDIES[name].run(again)
    assert again.kept == dict.fromkeys(first.kept, True)


def square_times(seed: int, pair: tuple[int, int]) -> int:
    return pair[0] ** 2 * pair[1] + seed


@pytest.mark.slow
def test_processes_find_what_one_finds(tmp_path: Path) -> None:
    def found(trial: Trial) -> dict[int, list[int]]:
        return results(trial, range(3), lambda n, seed: (n, seed), partial(square_times, 1))

    assert found(quick(tmp_path)) == {0: [1], 1: [1001], 2: [4001]}
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert found(full(tmp_path)) == {0: [1, 1], 1: [1001, 1002], 2: [4001, 4005]}
    finally:
        torch.set_num_threads(threads)


def test_data_is_found_where_the_environment_says_or_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for root in (Path("data"), tmp_path / "named"):
        if root != Path("data"):
            monkeypatch.setenv("CROSSHEAD_DATA", str(root))
        else:
            monkeypatch.delenv("CROSSHEAD_DATA", raising=False)
        with pytest.raises(MissingDataError, match=f"no set/raw/a in {root}: .* CROSSHEAD_DATA"):
            data_at("set/raw/a", "set/a")
        for path in ("set/a", "set/raw/a"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("")
            assert data_at("set/raw/a", "set/a") == root / path


def test_any_change_of_a_source_is_another_digest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    found = set()
    for name, text in (
        ("a.py", "x = 2\n"), ("b.py", ""), ("inner/b.py", ""), ("notes.txt", "x"),
        ("a.py", "x = 1\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        found.add(digest(tmp_path))
    assert len(found) == 4  # notes are no source


def test_this_code_is_that_of_the_package() -> None:
    assert digest(Path(crosshead.__file__).parent) == THIS_CODE and len(THIS_CODE) == 8


class Settings(NamedTuple):
    """A run of one setting."""

    rate: float


def test_a_result_is_computed_once_for_its_settings(tmp_path: Path) -> None:
    calls: list[float] = []

    def compute(rate: float) -> dict[str, float]:
        calls.append(rate)
        return {"loss": rate / 2}

    trial = quick(tmp_path)
    for rate in (0.25, 0.5, 0.25):
        found = stored(trial, "new", Settings(rate)).result(lambda settings: compute(settings.rate))
        assert found == {"loss": rate / 2}
    assert calls == [0.25, 0.5]
    assert set(trial.kept) == set((tmp_path / "new").iterdir())


def test_means_are_over_seeds() -> None:
    assert means({"a": [1.0, 3.0], "b": [5]}) == {"a": 2.0, "b": 5}
