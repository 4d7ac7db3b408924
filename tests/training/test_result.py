"""The end of a run: its log, its picture and its scores."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crosshead.addons.checks.glance import Glance
from crosshead.errors import UserError
from crosshead.tasks import usability
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation import parallel_corpus
from crosshead.training import result as result_module
from crosshead.training.run import train
from tests.training.runs import Remembering, logged, recipe_for, tuning_recipe


def test_the_log_ends_with_the_scores_of_the_bundle(finished: Path) -> None:
    lines = logged(finished)
    assert [line["update"] for line in lines if line["kind"] == "train"] == list(range(1, 19))
    assert [line["update"] for line in lines if line["kind"] == "valid"] == [6, 12, 18]
    assert [line["kind"] for line in lines].index("end") == len(lines) - 1
    assert lines[-1]["reason"] == "max_updates 18 is reached"
    train_losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert train_losses[-1] < train_losses[0]


def test_the_scores_of_the_card_stand_in_the_bundle(finished: Path) -> None:
    scores = load_bundle(finished).config.scores
    assert [score.metric for score in scores] == ["BLEU", "chrF2"]
    card = (finished / "README.md").read_text()
    assert all(f"| {score.metric} | {score.value:.2f} |" in card for score in scores)


@pytest.mark.parametrize("error", [UserError, ValueError])
def test_a_picture_that_fails_is_a_line_and_no_more(
    error: type[Exception], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(log: Path, picture: Path, metrics: object) -> None:
        raise error("matplotlib is not installed")

    monkeypatch.setattr(result_module, "draw_training_curve", missing)
    display = Remembering()
    train(recipe_for(text, "max_updates=1"), tmp_path / "run", display=display)
    assert "matplotlib is not installed" in display.lines[-1]
    load_bundle(tmp_path / "run")


def test_a_damaged_log_is_a_line_and_no_more(text: Path, tmp_path: Path) -> None:
    out, display = tmp_path / "run", Remembering()
    train(recipe_for(text, "max_updates=1"), out)
    log = out / "log.jsonl"
    log.write_bytes(b"{" * 9 + log.read_bytes()[9:])
    train(recipe_for(text, "max_updates=2"), out, resume=True, display=display)
    assert display.lines[-1] == f"{log}: 1 damaged line left out of training.png"
    load_bundle(out)


def test_the_average_is_in_the_log_and_scores_are_named_alike(finished: Path) -> None:
    lines = logged(finished)
    (average,) = (line for line in lines if line["kind"] == "average")
    valid = [line for line in lines if line["kind"] == "valid"]
    assert average.keys() - {"weights"} == valid[0].keys()
    assert average["weights"] == "the average of 3 checkpoints, updates 6 to 18"
    end = lines[-1]
    assert end["search"] == "beam 4, length penalty 0.6"
    assert (end["weights"] == average["weights"]) == average["best"]
    (bleu,) = (s.value for s in load_bundle(finished).config.scores if s.metric == "BLEU")
    assert end["bleu"] == bleu and {"chrf2"} <= end.keys()


def test_greedy_bleu_is_called_so(text: Path, tmp_path: Path) -> None:
    display = Remembering()
    train(recipe_for(text), tmp_path / "run", display=display)
    said = [line for line in display.lines if "BLEU" in line]
    assert len(said) == 4 and all("BLEU (greedy)" in line for line in said)


def test_folds_are_advised_after_training_a_new_model(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    new = train(recipe_for(text, "max_updates=1"), tmp_path / "new").findings
    recipe = tuning_recipe(text, finished, "max_updates=1")
    tuned = train(recipe, tmp_path / "tuned", start=finished).findings
    assert new and new.remarks[-1].endswith("pairs tells little.")
    assert f"`crosshead train --resume --out {tmp_path / 'new'} --folds 5`" in new.advice[0]
    assert tuned and not tuned.advice


def test_a_model_that_is_hardly_usable_comes_with_advice(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    found = train(recipe_for(text, "max_updates=1"), tmp_path / "new").findings
    assert found and found.remarks[0].startswith("Hardly usable yet: ")
    assert found.remarks[-1].startswith("Train longer: ")


def test_good_scores_do_not_hide_a_fault_of_the_data(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that copies has good scores if the references are copies."""
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.FEW_PAIRS", 1000)
    good = usability.Remarks(["Usable."], True)
    monkeypatch.setattr(usability, "translation_remarks", lambda *arguments: good)
    found = train(recipe_for(text, "max_updates=1"), tmp_path / "new").findings
    assert found and found.remarks[-1].startswith("The scores may hide a fault of the data: from ")


def test_fine_tuning_names_a_fault_of_the_data_but_advises_no_longer_run(
    finished: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usability, "translation_faults", lambda *arguments: [])
    recipe = tuning_recipe(text, finished, "max_updates=1")
    gist = train(recipe, tmp_path / "tuned", start=finished).findings
    assert gist and not gist.is_usable and "Train longer" not in "".join(gist.remarks)
    monkeypatch.setattr(
        parallel_corpus, "quick_check", lambda *given: Glance([], "sides are shifted")
    )
    found = train(recipe, tmp_path / "shifted", start=finished).findings
    assert found and found.remarks[-1] == "The likely cause is the data: sides are shifted."


def test_fine_tuning_without_gain_is_said_with_advice(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    rate = ("learning_rate=8.0", "warmup=1")
    recipe = tuning_recipe(text, finished, "max_updates=2", *rate)
    found = train(recipe, tmp_path / "tuned", start=finished).findings
    assert found and found.remarks[0] == (
        f"Fine-tuning improved nothing in 2 updates: the weights are those of {finished}; try a "
        "lower learning rate (--set train.learning_rate=...)."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "runs/a; try a lower learning rate ("),
        ({"start": None}, "the bundle that it began with; try a lower learning rate ("),
        ({"tuned": False}, None),
        ({"best_update": 3}, None),
        ({"best_average": [3, 6]}, None),
    ],
)
def test_only_fine_tuning_without_gain_is_said_so(
    changes: dict[str, Any], words: str | None
) -> None:
    state = {"start": Path("runs/a"), "tuned": True, "best_update": 0, "best_average": [],
             "update": 9, **changes}  # fmt: skip
    setup: Any = SimpleNamespace(start=state.pop("start"), progress=SimpleNamespace(**state))
    found = result_module._no_gain(setup)
    assert [words in line for line in found] == [True] if words else not found


def test_the_work_after_the_last_update_is_announced(text: Path, tmp_path: Path) -> None:
    """The last validation and the scoring of the chosen weights may take minutes."""
    shown = Remembering()
    shown.advance = lambda fraction, line: shown.lines.append(f"{fraction:.0%}")  # type: ignore[method-assign]
    train(recipe_for(text, "max_updates=2"), tmp_path / "run", display=shown)
    after = shown.lines[shown.lines.index("100%") + 1 :]
    assert after[0] == "update 2: the last validation has begun"
    assert "validation: " in after[1]
    assert after[2] == "scoring the weights on the validation set"
