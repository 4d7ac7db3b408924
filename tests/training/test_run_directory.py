"""What a run writes over, leaves alone and leaves behind."""

from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import ConfigError, DataError, UserError
from crosshead.recipe.compose import compose
from crosshead.training import loop
from crosshead.training.run import train
from tests.training.runs import (
    SMALL,
    Remembering,
    logged,
    recipe_for,
    stop_after,
    tree,
    tuning_recipe,
)


def test_a_run_is_not_overwritten_unless_forced(text: Path, tmp_path: Path) -> None:
    out, recipe = tmp_path / "run", recipe_for(text, "max_updates=1")
    train(recipe, out)
    (out / "checkpoints/update-00000999").mkdir()
    before = tree(out)
    with pytest.raises(UserError, match=r"--resume.*--force"):
        train(recipe, out)
    assert tree(out) == before
    train(recipe, out, force=True)
    assert not (out / "checkpoints/update-00000999").exists()
    assert [line["update"] for line in logged(out) if line["kind"] == "train"] == [1]


def test_what_is_no_run_is_never_overwritten(text: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(UserError, match="holds no run"):
            train(recipe_for(text), tmp_path / "thesis", force=force)
        with pytest.raises(UserError, match="is a file"):
            train(recipe_for(text), tmp_path / "thesis/chapter.tex", force=force)
    assert (tmp_path / "thesis/chapter.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        (["data.source=['absent.en']"], DataError),
        (["data.source=[]", "data.target=[]"], DataError),
        (["tokenizer.kind=bpe", "tokenizer.vocab_size=30000"], ConfigError),
        (["device=quantum"], ConfigError),
    ],
)
def test_nothing_is_written_where_the_run_is_refused(
    text: Path, tmp_path: Path, assignments: list[str], error: type[UserError]
) -> None:
    with pytest.raises(error) as caught:
        train(recipe_for(text, *assignments), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "broken",
    [
        "tasks.translation.parallel_corpus.write_left_out",
        "training.run.RunLog",
        "training.run.fit",
    ],
)
def test_a_start_that_fails_leaves_nothing(
    broken: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_for(text, "max_updates=1")

    def fail(*arguments: Any, **named: Any) -> None:
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(f"crosshead.{broken}", fail)
        with pytest.raises(UserError, match="disk is full"):
            train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(recipe, tmp_path / "run")


def test_a_run_stopped_before_its_first_update_can_simply_be_begun_again(
    text: Path, tmp_path: Path
) -> None:
    recipe, out = recipe_for(text, "max_updates=1"), tmp_path / "run"
    summary = train(recipe, out, should_stop=lambda: True)
    assert summary.interrupted and not out.exists()
    assert train(recipe, out).progress.update == 1


def test_a_run_whose_text_lies_in_it_is_not_replaced(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text, "max_updates=1"), out)
    before = tree(out)
    (out / "README.md").rename(tmp_path / "README.md")
    (out / "README.md").write_text((text / "en").read_text())
    inside = compose(
        flags={"data": {"source": str(out / "README.md"), "target": str(text / "de")}},
        assignments=SMALL,
    )
    with pytest.raises(UserError, match="--force would remove it"):
        train(inside, out, force=True)
    (tmp_path / "README.md").replace(out / "README.md")
    with pytest.raises(UserError, match="--force would remove it with the run"):
        train(tuning_recipe(text, out), out, start=out, force=True)
    assert tree(out) == before


def test_a_name_that_is_not_utf8_is_refused_before_anything_is_written(
    text: Path, tmp_path: Path
) -> None:
    recipe = recipe_for(text)
    with pytest.raises(UserError, match="not UTF-8"):
        train(recipe, tmp_path / "b\udcff")
    with pytest.raises(UserError, match="not UTF-8"):
        train(recipe, tmp_path / "run", command="crosshead train --from b\udcff")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_that_is_replaced_is_there_until_the_new_one_has_a_bundle(
    text: Path, tmp_path: Path
) -> None:
    out, recipe = tmp_path / "run", recipe_for(text)
    train(recipe_for(text, "max_updates=1"), out)
    before, display = tree(out), Remembering()
    kept = tmp_path / ".run.replaced"
    for asks in (lambda: True, kept.is_dir):  # while the text is read, and before the first update
        train(recipe, out, force=True, should_stop=asks, display=display)
        assert tree(out) == before
    assert [line for line in display.lines if str(kept) in line]
    is_due = stop_after(out, 2)  # by the log in `out`, which is the earlier run's at first
    stopped = train(recipe, out, force=True, should_stop=lambda: kept.is_dir() and is_due())
    again = train(recipe, out, resume=True, should_stop=lambda: True)
    assert again.interrupted and again.progress.update == stopped.progress.update > 0
    assert tree(kept) == before
    assert not (out / "config.json").exists()
    train(recipe, out, resume=True)
    assert not kept.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.slow
def test_a_bundle_is_kept_however_often_its_replacement_is_cut_off(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, kept, save = tmp_path / "run", tmp_path / ".run.replaced", loop.save_checkpoint
    train(recipe_for(text, "max_updates=1"), out)
    before = tree(out)
    recipe = recipe_for(text, "checkpoint_every=1")
    for update in (2, 1):

        def save_and_end(*arguments: Any, last: int = update) -> None:
            if save(*arguments).name == f"update-{last:08d}":
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(loop, "save_checkpoint", save_and_end)
            with pytest.raises(KeyboardInterrupt):
                train(recipe, out, force=True)
        assert len(list((out / "checkpoints").glob("update-*"))) == update
        assert tree(kept) == before
    train(recipe, out, resume=True)
    assert (out / "config.json").exists() and not kept.exists()


def test_a_refused_recipe_does_not_touch_the_run_it_would_replace(
    text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    train(recipe_for(text, "max_updates=1"), out)
    before = tree(out)
    with pytest.raises(ConfigError):
        train(recipe_for(text, "tokenizer.kind=bpe", "vocab_size=9000"), out, force=True)
    assert tree(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_two_runs_in_one_directory_are_refused(text: Path, tmp_path: Path) -> None:
    out, recipe = tmp_path / "run", recipe_for(text)

    def intrude() -> bool:
        for more in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(UserError, match="another run is writing there"):
                train(recipe, out, **more)
        return stop_after(out, 2)()

    assert train(recipe, out, should_stop=intrude).interrupted
    assert train(recipe, out, resume=True).progress.update == 18


def test_more_threads_than_cores_are_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.threads is 1000, but .* --threads 0"):
        train(recipe_for(text, "threads=1000"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
