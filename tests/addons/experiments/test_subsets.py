"""Runs on subsets: each is trained once, and a stopped one goes on."""

import dataclasses
import shutil
import signal
from pathlib import Path

import pytest

from crosshead.addons.experiments.subsets import (
    Outcome,
    Report,
    Runs,
    Subset,
    check_subsets,
    outcome_of,
    planned_recipe,
    subset_folder,
    table_of,
    train_subsets,
    write_table,
)
from crosshead.bundle.config import BundleScore
from crosshead.bundle.places import CONFIG, RECIPE
from crosshead.caller import PYTHON, calling_from
from crosshead.errors import BundleError, ConfigError, UserError
from crosshead.recipe.compose import compose
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.progress import Silent
from crosshead.system.signals import stop_on_signals
from crosshead.training.directory import stored_recipe
from crosshead.training.log import LOG
from crosshead.training.run import train
from tests.training.runs import Remembering, digest, logged, recipe_for, stop_after

HALVES = [Subset("a", "half a", {"share": 0.5}), Subset("b", "half b", {"fold": [1, 2]})]
SHORT = ("max_updates=4", "train.valid_every=2", "decode.beam=1")


@pytest.fixture(scope="module")
def trained(
    text: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Runs, Path, list[Outcome]]:
    """Two runs on subsets; to be read only."""
    folder = tmp_path_factory.mktemp("subsets") / "x.kind"
    runs = Runs(recipe_for(text, *SHORT))
    found = train_subsets(runs, folder, HALVES)
    assert found is not None
    return runs, folder, list(found.values())


def test_each_run_has_its_own_pairs_and_scores(
    trained: tuple[Runs, Path, list[Outcome]],
) -> None:
    _, folder, found = trained
    # 203 pairs, 164 of them different, of which 3 are filtered; 12 are held out of the first run,
    # and 82 of the second. Some pairs repeat a held-out pair.
    assert 60 < found[0].pairs <= 96 and 60 < found[1].pairs <= 121
    assert all(score.interval for each in found for score in each.scores)
    assert stored_recipe(folder / "a").data.share == 0.5  # type: ignore[attr-defined]
    assert stored_recipe(folder / "b").data.fold == [1, 2]  # type: ignore[attr-defined]


def test_what_is_finished_is_not_repeated(trained: tuple[Runs, Path, list[Outcome]]) -> None:
    runs, folder, found = trained
    before, display = digest(folder / "a" / LOG), Remembering()
    again = train_subsets(dataclasses.replace(runs, display=lambda: display), folder, HALVES)
    assert again == {"a": found[0], "b": found[1]} and digest(folder / "a" / LOG) == before
    assert display.lines == [
        f"half a: finished in {folder / 'a'}", f"half b: finished in {folder / 'b'}",
    ]  # fmt: skip


@pytest.mark.slow
def test_other_settings_are_refused_and_replace_the_runs_with_force(
    trained: tuple[Runs, Path, list[Outcome]], text: Path, tmp_path: Path
) -> None:
    _, folder, _ = trained
    other = Runs(recipe_for(text, *SHORT, "d_model=32"))
    with pytest.raises(ConfigError, match=r"is 32, but the run in .* began with 16"):
        train_subsets(other, folder, HALVES[:1])
    place = tmp_path / "x.kind"
    assert train_subsets(Runs(recipe_for(text, *SHORT)), place, HALVES[:1])
    forced = train_subsets(dataclasses.replace(other, force=True), place, HALVES[:1])
    assert forced is not None and stored_recipe(place / "a").model.d_model == 32  # type: ignore[union-attr]


def test_a_stopped_run_goes_on(trained: tuple[Runs, Path, list[Outcome]], tmp_path: Path) -> None:
    runs, folder, _ = trained
    place = tmp_path / "x.kind"
    with stop_on_signals() as request:

        class Stopping(Silent):
            def due(self) -> bool:
                if stop_after(place / "a", 2)():
                    request.ask(signal.SIGPIPE)
                return False

        stopping = dataclasses.replace(runs, display=Stopping)
        assert train_subsets(stopping, place, HALVES) is None
    assert not (place / "a" / CONFIG).exists() and not (place / "b").exists()
    found = train_subsets(runs, place, HALVES[:1])
    assert found is not None
    losses = [
        [row["loss"] for row in logged(each / "a") if row["kind"] == "train"]
        for each in (folder, place)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("resume", [False, True])
def test_the_recipe_of_the_subsets_keeps_what_is_stated_and_opens_what_was_chosen_by_size(
    text: Path, finished: Path, tmp_path: Path, resume: bool
) -> None:
    chosen = tmp_path / "chosen"
    begun = recipe_for(text, *SHORT, "max_updates=1")
    assert isinstance(begun, TextRecipe)
    unstated = begun.tokenizer.model_copy(update={"vocab_size": None})
    without = begun.train.model_copy(update={"warmup": None})
    train(begun.model_copy(update={"tokenizer": unstated, "train": without}), chosen)
    for out, size, warmup, valid_every in ((finished, 100, 10, 6), (chosen, None, None, 2)):
        folder = tmp_path / out.name / "folder"
        planned = planned_recipe(out, folder, resume=resume)
        assert planned.tokenizer.vocab_size == size  # type: ignore[attr-defined]
        assert (planned.train.warmup, planned.train.valid_every) == (warmup, valid_every)
        assert planned.model == stored_recipe(out).model
        again = planned_recipe(out, folder, resume=True)
        assert again.tokenizer == planned.tokenizer  # type: ignore[attr-defined]
        assert (folder / RECIPE).is_file()


def test_the_limits_are_those_of_the_run_on_all_pairs(text: Path, tmp_path: Path) -> None:
    out, folder = tmp_path / "run", tmp_path / "run.kind"
    train(recipe_for(text, *SHORT, "max_updates=2"), out)
    for given, expected in ((1, 2), (3, 3)):  # a smaller limit does not change a finished run
        train(recipe_for(text, *SHORT, f"max_updates={given}"), out, resume=True)
        planned = planned_recipe(out, folder, resume=True)
        assert planned.train.max_updates == expected and (folder / RECIPE).is_file()


def test_a_run_that_ended_by_other_limits_is_refused(
    trained: tuple[Runs, Path, list[Outcome]], text: Path, tmp_path: Path
) -> None:
    place = tmp_path / "x.kind"
    shutil.copytree(trained[1] / "a", place / "a")
    fewer = Runs(recipe_for(text, *SHORT, "max_updates=2"))
    with pytest.raises(UserError, match=r"a: ended by other limits than the run on all pairs"):
        train_subsets(fewer, place, HALVES[:1])
    shutil.rmtree(place / "a")
    assert train_subsets(fewer, place, HALVES[:1])


def test_the_folder_stands_beside_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subset_folder(Path("runs/x"), "curve") == Path("runs/x.curve")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert subset_folder(Path("."), "curve").name == "here.curve"


def test_what_has_no_pairs_or_begins_with_a_bundle_is_refused(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_subsets(recipe_for(text), "curve", None)
    language = compose(flags={"data": {"text": str(text / "en")}})
    with pytest.raises(UserError, match=r"--curve takes subsets of pairs of .* language"):
        check_subsets(language, "curve", None)
    with calling_from(PYTHON), pytest.raises(UserError, match=r"folds trains new .* start='a/b'"):
        check_subsets(recipe_for(text), "folds", Path("a/b"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="--folds trains in one process, found 2; leave it out"):
        check_subsets(recipe_for(text), "folds", None)


def test_a_run_without_a_bundle_has_no_outcome(
    trained: tuple[Runs, Path, list[Outcome]], tmp_path: Path
) -> None:
    with pytest.raises(BundleError):
        outcome_of(tmp_path)
    _, folder, found = trained
    assert outcome_of(folder / "a") == found[0]


def test_the_table_has_a_row_for_each_run_and_metric(
    trained: tuple[Runs, Path, list[Outcome]], tmp_path: Path
) -> None:
    _, _, (first, second) = trained
    outcomes = {"a": first, "b": second}
    header, *rows = table_of(outcomes)
    assert header == ["run", "pairs", "BLEU", "chrF2"]
    assert rows[0] == ["a", str(first.pairs), *(score.shown for score in first.scores)]
    write_table(tmp_path / "t.tsv", outcomes)
    lines = [line.split("\t") for line in (tmp_path / "t.tsv").read_text().splitlines()]
    assert lines[0] == ["run", "pairs", "metric", "score", "low", "high"] and len(lines) == 5
    assert [float(each) for each in lines[1][3:]] == [
        first.scores[0].value, first.scores[0].low, first.scores[0].high,
    ]  # fmt: skip


def test_a_report_has_a_table_sentences_and_its_file(tmp_path: Path) -> None:
    outcomes = {
        str(pairs): Outcome(pairs, [
            BundleScore(metric="BLEU", value=value, signature="s", test_set="v")
        ])
        for pairs, value in ((1000, 20.0), (2000, 26.0))
    }  # fmt: skip
    said = Report(outcomes, ["More helps."], tmp_path / "a.tsv").text()
    assert said.startswith("\nrun   pairs   BLEU\n1000  1,000  20.00\n2000  2,000  26.00\n")
    assert said.endswith(f"More helps.\nWritten: {tmp_path / 'a.tsv'}\n")
