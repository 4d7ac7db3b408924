"""Runs whose directory is renamed or removed while they go on."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.training.run import train
from tests.parameters import mostly_slow
from tests.recipe.composing import resumed_recipe
from tests.training.runs import digest, logged, recipe_for


def at_update(out: Path, update: int, act: Callable[[], object]) -> Callable[[], bool]:
    """What acts once that update stands in the log, and never asks a run to stop."""
    done = False

    def asked() -> bool:
        nonlocal done
        if not done and (out / "log.jsonl").is_file():
            rows = logged(out)
            if rows and rows[-1]["update"] >= update:
                act()
                done = True
        return False

    return asked


def place_in(error: UserError) -> Path:
    """Where the message says that the run is saved."""
    assert "\n" not in str(error)
    found = re.search(r"--resume --out (\S+)$", str(error))
    assert found
    return Path(found[1])


@pytest.mark.parametrize("update", mostly_slow([3, 11], [3]))
def test_a_run_whose_directory_is_renamed_is_saved_there_at_once(
    update: int, text: Path, finished: Path, tmp_path: Path
) -> None:
    """Before the first checkpoint and after it; another directory may stand in its place."""
    out, elsewhere = tmp_path / "run", tmp_path / "other" / "place"
    elsewhere.parent.mkdir()

    def rename() -> None:
        out.rename(elsewhere)
        out.mkdir()

    with pytest.raises(UserError, match=rf"renamed to .* saved at update {update + 1} ") as caught:
        train(recipe_for(text), out, should_stop=at_update(out, update, rename))
    assert place_in(caught.value) == elsewhere
    assert not list(out.iterdir())
    train(resumed_recipe(elsewhere, None, {}, []), elsewhere, resume=True)
    assert digest(elsewhere / "model.safetensors") == digest(finished / "model.safetensors")
    rows = [row["update"] for row in logged(elsewhere) if row["kind"] == "train"]
    assert rows == [*range(1, update + 1), *range(update + 2, 19)]


@pytest.mark.slow
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_run_whose_directory_is_removed_is_saved_anew(
    is_taken: bool, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"

    def remove() -> None:
        shutil.rmtree(out)
        if is_taken:
            out.write_text("in its place")

    recipe = recipe_for(text, "average=0")
    with pytest.raises(UserError, match=r"removed while .* saved at update 12 ") as caught:
        train(recipe, out, should_stop=at_update(out, 11, remove))
    place = place_in(caught.value)
    assert place == (tmp_path / "run.rescued-1" if is_taken else out)
    assert train(recipe, place, resume=True).progress.update == 18
    rows = [row["update"] for row in logged(place) if row["kind"] == "train"]
    assert rows == [*range(1, 12), *range(13, 19)]


def test_a_directory_that_is_removed_while_the_text_is_read(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def remove() -> bool:
        shutil.rmtree(out, ignore_errors=True)
        return False

    with pytest.raises(UserError, match="renamed or removed"):
        train(recipe_for(text), out, should_stop=remove)
    assert not out.exists()


def test_a_run_that_validates_for_long_notices_before_it_writes(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, moved = tmp_path / "run", tmp_path / "moved"
    with pytest.raises(UserError, match=r"renamed to .* saved at update 6 "):
        train(
            recipe_for(text, "log_every=100"), out,
            should_stop=lambda: renamed_in_validation(out, moved),
        )  # fmt: skip
    assert not out.exists()


def renamed_in_validation(out: Path, moved: Path) -> bool:
    """Rename a run directory as soon as its tokenizer is there."""
    if (out / "tokenizer.json").is_file():
        out.rename(moved)
    return False
