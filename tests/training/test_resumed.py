"""Runs that continue after they were stopped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.bundle.config_file import load_config
from crosshead.errors import BundleError, ConfigError, UserError
from crosshead.recipe.compose import compose
from crosshead.tasks.registry import kinds, load_bundle
from crosshead.training import run as run_module
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.directory import stored_recipe
from crosshead.training.hardware import Machine
from crosshead.training.run import train
from crosshead.training.schedule import End, cosine_factor
from crosshead.training.setup import Setup
from tests.parameters import mostly_slow
from tests.training.runs import (
    SMALL,
    Remembering,
    digest,
    logged,
    own_text,
    recipe_for,
    stop_after,
    tree,
)
from tests.training.states import state_bytes


@pytest.mark.parametrize("stop", mostly_slow([4, 12, 18], [12]))
def test_a_run_that_was_stopped_and_resumed_gives_the_same_bundle(
    finished: Path, text: Path, tmp_path: Path, stop: int
) -> None:
    out = tmp_path / "words"
    first = train(recipe_for(text), out, should_stop=stop_after(out, stop))
    assert first.interrupted and first.progress.update == stop
    assert not (out / "config.json").exists()
    second = train(recipe_for(text), out, resume=True)
    assert not second.interrupted and second.progress.update == 18
    for name in ("model.safetensors", "tokenizer.json", "recipe.toml"):
        assert digest(out / name) == digest(finished / name), name
    # Its checksums are of the card too, which says when and how long the run took.
    assert load_config(out, kinds()) == load_config(finished, kinds())
    assert [line["update"] for line in logged(out) if line["kind"] == "train"] == list(range(1, 19))


def test_a_run_with_guided_alignment_learns_its_alignments_again(
    text: Path, tmp_path: Path
) -> None:
    recipe = recipe_for(text, "guided_alignment=0.5", "max_updates=8", "valid_every=4")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe, whole)
    assert train(recipe, parts, should_stop=stop_after(parts, 5)).interrupted
    train(recipe, parts, resume=True)
    assert digest(parts / "model.safetensors") == digest(whole / "model.safetensors")
    alignment = [line["alignment"] for line in logged(whole) if line["kind"] == "train"]
    assert alignment == [line["alignment"] for line in logged(parts) if line["kind"] == "train"]
    assert alignment[-1] < alignment[0]


def test_a_run_can_be_prolonged(text: Path, tmp_path: Path) -> None:
    train(recipe_for(text, "max_updates=6"), tmp_path / "run")
    display = Remembering()
    longer = recipe_for(text, "max_updates=8", "train.precision=auto")
    summary = train(longer, tmp_path / "run", resume=True, display=display)
    assert summary.progress.update == 8
    assert stored_recipe(tmp_path / "run") == recipe_for(text, "max_updates=8")
    assert not [line for line in display.lines if "bit-identical" in line]
    assert len([line for line in logged(tmp_path / "run") if line["kind"] == "train"]) == 8


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("d_ff=32", "model.d_ff"),
        ("tokenizer.vocab_size=50", "tokenizer.vocab_size"),
        ("seed=2", "train.seed"),
        ("train.batch_tokens=300", "train.batch_tokens"),
    ],
)
def test_a_run_is_resumed_with_the_settings_it_began_with(
    finished: Path, text: Path, assignment: str, named: str
) -> None:
    before = tree(finished)
    with pytest.raises(ConfigError, match=named):
        train(recipe_for(text, assignment), finished, resume=True)
    assert tree(finished) == before


def test_a_damaged_checkpoint_is_refused_by_name(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text), out, should_stop=stop_after(out, 2))
    (place,) = list_checkpoints(out / "checkpoints")
    weights = place / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(BundleError, match=r"weights\.safetensors"):
        train(recipe_for(text), out, resume=True)


@pytest.mark.slow
def test_subwords_are_sampled_anew_and_the_run_can_still_be_resumed(
    text: Path, tmp_path: Path
) -> None:
    bpe = ["tokenizer.kind=bpe", "tokenizer.vocab_size=300", "sampling=0.2", "max_updates=9",
           "data.max_length=60"]  # fmt: skip
    train(recipe_for(text, *bpe), tmp_path / "whole")
    parts = tmp_path / "parts"
    train(recipe_for(text, *bpe), parts, should_stop=stop_after(parts, 5))
    train(recipe_for(text, *bpe), parts, resume=True)
    assert digest(parts / "model.safetensors") == digest(tmp_path / "whole/model.safetensors")


def test_there_must_be_something_to_resume(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run with a checkpoint"):
        train(recipe_for(text), tmp_path / "absent", resume=True)
    assert not (tmp_path / "absent").exists()


@pytest.mark.slow
def test_other_threads_are_warned_of_and_what_was_left_open_stays_so(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    for threads, updates in ((1, 2), (3, 3), (3, 4)):
        monkeypatch.setattr("crosshead.training.setup.choose_machine", machine_with(threads))
        display = Remembering()
        recipe = recipe_for(text, f"max_updates={updates}", "threads=0")
        train(recipe, out, resume=out.exists(), display=display)
        assert stored_recipe(out).train.threads == 0
        warnings = [line for line in display.lines if "bit-identical" in line]
        expected = ["with 3 threads, where the run had 1 thread: "] if updates == 3 else []
        assert [line[: len(expected[0])] for line in warnings] == expected


def test_a_warm_up_that_its_share_ends_goes_on_at_the_same_rates(
    text: Path, tmp_path: Path
) -> None:
    given = ("schedule=constant", "warmup=8", "warmup_share=0.5", "max_updates=8", "patience=0")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe_for(text, *given), whole)
    train(recipe_for(text, *given), parts, should_stop=stop_after(parts, 3))
    train(recipe_for(text, *given), parts, resume=True)
    whole_rates, parts_rates = (
        [line["learning_rate"] for line in logged(out) if line["kind"] == "train"]
        for out in (whole, parts)
    )
    # Update 1 is an eighth of the warm-up by updates; later ones are further on by their share.
    expected = [0.01 * factor for factor in (0.125, 0.25, 0.5, 0.75, 1, 1, 1, 1)]
    assert whole_rates == parts_rates == pytest.approx(expected)
    assert digest(parts / "model.safetensors") == digest(whole / "model.safetensors")


@pytest.mark.slow
def test_another_end_of_a_cosine_is_told_with_the_rates_before_and_after(
    text: Path, tmp_path: Path
) -> None:
    out, said = tmp_path / "run", []
    for updates in (4, 4, 16):
        display = Remembering()
        recipe = recipe_for(text, "schedule=cosine", "warmup=2", f"max_updates={updates}")
        train(recipe, out, resume=out.exists(), display=display)
        said.append([line for line in display.lines if "bit-identical" in line])
    # 0.01 (0.55 + 0.45 cos(pi / 4)), and the tenth of the peak where the run had ended.
    told = (
        "with a learning rate of 0.00868 at update 5, where the run had 0.001: "
        "the weights will not be bit-identical to an uninterrupted run"
    )
    assert said == [[], [], [told]]
    trained = [line for line in logged(out) if line["kind"] == "train"]
    rates = {line["update"]: line["learning_rate"] for line in trained}
    assert rates[4] == pytest.approx(0.01 * cosine_factor(3 / 4))
    assert rates[5] == pytest.approx(0.01 * cosine_factor(4 / 16))
    assert rates[16] == pytest.approx(0.01 * cosine_factor(15 / 16))


def test_another_end_of_a_cooldown_is_told_whatever_the_budget(text: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "run", []
    for budget in ("max_updates=4", "max_updates=8"):
        display = Remembering()
        given = ("schedule=constant", "cooldown=1", "warmup=1", "patience=0", budget)
        train(recipe_for(text, *given), out, resume=out.exists(), display=display)
        said += [line for line in display.lines if "bit-identical" in line]
    assert [line.partition(": the")[0] for line in said] == [
        "with a learning rate of 0.005 at update 5, where the run had 0"
    ]
    trained = [line for line in logged(out) if line["kind"] == "train"]
    rates = {line["update"]: line["learning_rate"] for line in trained}
    assert rates[4] == pytest.approx(0.0025)
    assert rates[8] == pytest.approx(0.00125)


def test_a_smaller_budget_that_trains_nothing_changes_no_rate(text: Path, tmp_path: Path) -> None:
    out, display = tmp_path / "run", Remembering()
    cosine = ("schedule=cosine", "warmup=2")
    train(recipe_for(text, *cosine, "max_updates=8"), out, should_stop=stop_after(out, 4))
    train(recipe_for(text, *cosine, "max_updates=4"), out, resume=True, display=display)
    assert any("nothing to train" in line for line in display.lines)
    assert not any("bit-identical" in line for line in display.lines)


@pytest.mark.slow
def test_parts_may_be_others_when_a_run_goes_on(text: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "run", []
    for number, updates in ((1, 2), (3, 3), (3, 4), (1, 5)):
        display = Remembering()
        recipe = recipe_for(text, f"accumulate={number}", f"max_updates={updates}")
        summary = train(recipe, out, resume=out.exists(), display=display)
        assert summary.progress.microbatches == number
        said.append([line for line in display.lines if "bit-identical" in line])
    assert [len(lines) for lines in said] == [0, 1, 0, 1]
    assert said[1][0].startswith("with batches in 3 microbatches, where the run had them in 1: ")


@pytest.mark.slow
def test_parts_that_memory_called_for_are_kept_when_a_run_goes_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fit = tmp_path / "run", run_module.fit

    def split(training: Setup) -> End:
        training.progress.microbatches = 4
        return fit(training)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "fit", split)
        train(recipe_for(text, "max_updates=2"), out)
    assert train(recipe_for(text, "max_updates=3"), out, resume=True).progress.microbatches == 4


@pytest.mark.slow
def test_parts_are_side_by_side_again_where_others_are_asked_for(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fit = tmp_path / "run", run_module.fit

    def one_by_one(training: Setup) -> End:
        training.progress.microbatches, training.progress.in_parallel = 4, False
        return fit(training)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "fit", one_by_one)
        train(recipe_for(text, "max_updates=2"), out)
    kept = train(recipe_for(text, "max_updates=3"), out, resume=True).progress
    assert (kept.microbatches, kept.in_parallel) == (4, False)
    anew = train(recipe_for(text, "max_updates=4", "accumulate=2"), out, resume=True).progress
    assert (anew.microbatches, anew.in_parallel) == (2, True)


def machine_with(threads: int) -> Callable[..., Machine]:
    """A choice of machine that leaves PyTorch's threads as they are."""
    return lambda config, device, processes: Machine(device, threads, torch.float32, "for a test")


def test_the_same_text_may_lie_elsewhere_when_a_run_goes_on(text: Path, tmp_path: Path) -> None:
    folder, out, moved = own_text(text, tmp_path), tmp_path / "run", tmp_path / "mv"
    train(recipe_for(folder), out, should_stop=stop_after(out, 2))
    moved.mkdir()
    (folder / "en").rename(moved / "s2.en")
    data = {"source": str(moved / "s2.en"), "target": str(folder / "de")}
    recipe = compose(flags={"data": data}, assignments=SMALL)
    summary = train(recipe, out, resume=True)
    assert summary.progress.names == [str(moved / "s2.en"), str(folder / "de")]
    assert stored_recipe(out).data.source == [str(moved / "s2.en")]
    assert "| `s2.en` | 203 |" in (out / "README.md").read_text()
    (moved / "s2.en").write_text("one\n" * 203)
    with pytest.raises(UserError, match="data has changed"):
        train(recipe, out, resume=True)


def test_a_missing_file_that_is_named_now_is_not_replaced(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text), out, should_stop=stop_after(out, 1))
    data = {"source": str(tmp_path / "nothere"), "target": str(text / "de")}
    recipe = compose(flags={"data": data}, assignments=SMALL)
    with pytest.raises(UserError, match=r"nothere: no such file; check the path of data\.source"):
        train(recipe, out, resume=True)


def test_a_run_goes_on_with_another_learning_rate_and_says_so(text: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "run", []
    for rate, recompute in ((0.01, False), (0.002, True), (0.002, True)):
        display, updates = Remembering(), 2 + 2 * len(said)
        assignments = [f"learning_rate={rate}", f"max_updates={updates}"]
        recipe = recipe_for(text, *assignments, f"recompute={str(recompute).lower()}")
        train(recipe, out, resume=out.exists(), display=display)
        said.append([line for line in display.lines if "bit-identical" in line])
    assert [len(lines) for lines in said] == [0, 1, 0]
    assert said[1][0].startswith(
        "with a learning rate of 0.0006 at update 3, where the run had 0.003: "
    )
    rates = [line["learning_rate"] for line in logged(out) if line["kind"] == "train"]
    assert rates == pytest.approx([0.001, 0.002, 0.0006, 0.0008, 0.001, 0.0012])


@pytest.mark.slow
def test_a_resumed_run_says_its_first_line_again(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_text(text, tmp_path))
    out, valid = Path("run"), ["data.valid_source=en", "data.valid_target=de"]
    said = []
    for updates in (1, 2):
        display = Remembering()
        recipe = recipe_for(Path(), f"max_updates={updates}", *valid)
        train(recipe, out, resume=updates > 1, display=display)
        said += [line for line in display.lines if "pairs to train on" in line]
    assert said[0].endswith(" of en, de")
    assert said[1] == said[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines, "one two"], r"began \(\d+ pairs then, \d+ now"),
        (lambda lines: [*lines[:5], "six", *lines[6:]], "has changed"),
        (lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]], "has changed"),
    ],
)
def test_text_that_changed_is_noticed_when_a_run_goes_on(
    change: Callable[[list[str]], list[str]], words: str, text: Path, tmp_path: Path
) -> None:
    folder, out = own_text(text, tmp_path), tmp_path / "run"
    train(recipe_for(folder), out, should_stop=stop_after(out, 2))
    before = tree(out)
    for name in ("en", "de"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        (folder / name).write_text("\n".join(change(lines)) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=words) as caught:
        train(recipe_for(folder), out, resume=True)
    assert "\n" not in str(caught.value)
    assert tree(out) == before


DAMAGES = [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(path.read_bytes()[:-9]),
    lambda path: path.write_bytes(b"x"),
]


@pytest.mark.parametrize("damage", mostly_slow(DAMAGES, DAMAGES[1:2]))
def test_best_weights_that_are_lost_are_taken_from_their_checkpoint(
    damage: Callable[[Path], None], finished: Path, text: Path, tmp_path: Path
) -> None:
    out, display = tmp_path / "run", Remembering()
    train(recipe_for(text), out, should_stop=stop_after(out, 8))
    best = out / "checkpoints/best.safetensors"
    before = digest(best)
    damage(best)

    def is_back() -> bool:
        return best.exists() and digest(best) == before

    train(recipe_for(text), out, resume=True, display=display, should_stop=is_back)
    assert digest(best) == before
    (line,) = (line for line in display.lines if "best.safetensors" in line)
    assert "update-00000006" in line
    train(recipe_for(text), out, resume=True)
    assert digest(out / "model.safetensors") == digest(finished / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("damage", mostly_slow(DAMAGES, DAMAGES[1:2]))
@pytest.mark.parametrize(
    ("end", "validated"), [(8, [12, 18]), pytest.param(6, [6, 12, 18], marks=pytest.mark.slow)]
)
def test_best_weights_that_are_lost_for_good_are_counted_anew(
    damage: Callable[[Path], None], end: int, validated: list[int], text: Path, tmp_path: Path
) -> None:
    out, display = tmp_path / "run", Remembering()
    train(recipe_for(text, f"max_updates={end}"), out)
    forget_best(list_checkpoints(out / "checkpoints")[-1], best_update=3)
    before = len(validations(out))
    damage(out / "checkpoints/best.safetensors")
    summary = train(recipe_for(text), out, resume=True, display=display)
    (line,) = (line for line in display.lines if "best.safetensors" in line)
    assert "the best weights so far, of update 3, are lost" in line
    valid = validations(out)[before:]
    assert [line["update"] for line in valid] == validated
    assert valid[0]["best"] and summary.progress.best_update >= validated[0]
    assert load_bundle(out)


def validations(out: Path) -> list[dict[str, Any]]:
    return [line for line in logged(out) if line["kind"] == "valid"]


def forget_best(place: Path, best_update: int) -> None:
    """Let a checkpoint say that the best weights are those of an update of which none is kept."""
    found = json.loads((place / "state.json").read_text())
    found["progress"].update(best_update=best_update, best_score=[99.0, 0.0], since_best=1)
    found["progress"].update(best_average=[], best_alone=None)
    (place / "state.json").write_bytes(state_bytes(found["progress"], found["sha256"]))


def test_best_weights_that_are_lost_at_the_end_are_missed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fit = tmp_path / "run", run_module.fit

    def fit_and_lose(training: Setup) -> End:
        end = fit(training)
        (out / "checkpoints/best.safetensors").unlink()
        return end

    monkeypatch.setattr(run_module, "fit", fit_and_lose)
    with pytest.raises(BundleError, match=r"best\.safetensors: missing"):
        train(recipe_for(text), out)
    assert not (out / "config.json").exists()


@pytest.mark.slow
def test_a_run_goes_on_from_another_working_directory_and_keeps_the_names_that_were_typed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = own_text(text, tmp_path), tmp_path / "run"
    monkeypatch.chdir(folder)
    data = {"source": "en", "target": "de", "valid_source": "en", "valid_target": "de"}
    recipe = compose(flags={"data": data}, assignments=SMALL)
    train(recipe, out, command="crosshead train --source en", should_stop=stop_after(out, 2))
    stored = stored_recipe(out)
    assert stored.data.source == [str(folder / "en")]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    longer = stored.model_copy(update={"decode": stored.decode.model_copy(update={"beam": 3})})
    train(longer, out, resume=True, command="crosshead train --resume")
    card = (out / "README.md").read_text()
    assert str(folder) not in card
    assert "| `en` | 203 |" in card and '    "en",' in card
    assert "Validation: 203 pairs of en, de." in card
    assert "crosshead train --source en\ncrosshead train --resume\n" in card
    assert "Search: beam 3, length penalty 0.6." in card
