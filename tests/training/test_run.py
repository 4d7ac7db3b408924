"""Runs from a recipe to a bundle; resuming, tuning and the directory have files of their own."""

import math
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import crosshead
from crosshead.errors import UserError
from crosshead.recipe.compose import compose
from crosshead.tasks.registry import load_bundle
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.directory import stored_recipe
from crosshead.training.run import train
from tests.parameters import mostly_slow
from tests.recipe.composing import new_recipe, resumed_recipe
from tests.training.runs import Remembering, digest, logged, recipe_for, tuning_recipe


def test_the_directory_of_a_run(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "recipe.toml",
        "log.jsonl", "left-out.tsv", "checkpoints", "training.png",
    }  # fmt: skip
    assert not [path for path in finished.rglob("*") if ".crosshead" in path.name]
    assert [place.name[-2:] for place in list_checkpoints(finished / "checkpoints")] == [
        "06", "12", "18",
    ]  # fmt: skip


def test_what_is_left_out_is_written_down(finished: Path, text: Path) -> None:
    header, *rows = (finished / "left-out.tsv").read_text().splitlines()
    assert header == "file\tline\treason"
    held_out = [row for row in rows if row.endswith("\trepeats a validation source")]
    assert len(held_out) == 3
    assert [row for row in rows if row not in held_out] == [
        f"{text / 'en'}\t41\tempty side",
        f"{text / 'en'}\t91\ttoo long",
        f"{text / 'en'}\t151\tlength ratio",
    ]


def test_the_card_says_what_was_done(finished: Path, text: Path) -> None:
    card = (finished / "README.md").read_text()
    _, front, body = card.split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["library_name"] == "crosshead" and facts["pipeline_tag"] == "translation"
    (model,) = facts["model-index"]
    assert model["name"] == "words"
    metrics = [metric["type"] for result in model["results"] for metric in result["metrics"]]
    assert metrics[0] == "bleu" and any(metric.startswith("chrf") for metric in metrics)
    assert re.search(r"Validation: (9|1[0-2]) pairs held out of the training files", body)
    assert "| `en` |" in body and digest(text / "de") in body
    assert str(text.parent) not in card  # no absolute path
    assert "crosshead train --out words" in body
    for phrase in ("empty side", "too long", "length ratio", "float32", "version:"):
        assert phrase in body
    settings = body.split("```toml\n")[1].split("```")[0]
    named = recipe_for(text).data.renamed(["en", "de"])
    assert compose(recipe=tomllib.loads(settings)) == recipe_for(text).model_copy(
        update={"data": named}
    )


def test_the_bundle_translates(finished: Path) -> None:
    translator = crosshead.load(finished)
    assert isinstance(translator("one two"), str)
    several = translator(["one two", "", "three"])
    assert len(several) == 3 and several[1] == ""
    assert several[0] == translator("one two")


def test_the_resolved_recipe_can_be_run_again(finished: Path, text: Path, tmp_path: Path) -> None:
    assert stored_recipe(finished) == recipe_for(text)
    again = new_recipe(None, str(finished / "recipe.toml"), {}, [])
    train(again, tmp_path / "again")
    assert stored_recipe(tmp_path / "again") == stored_recipe(finished)
    assert digest(tmp_path / "again/model.safetensors") == digest(finished / "model.safetensors")


def test_what_is_held_out_is_listed(finished: Path, text: Path) -> None:
    head, *rows = (finished / "held-out.tsv").read_text().splitlines()
    assert head == "file\tline"
    sources = (text / "en").read_text().split("\n")
    assert 9 <= len(rows) <= 12
    for row in rows:
        name, line = row.split("\t")
        assert name == str(text / "en") and sources[int(line) - 1].strip()


def test_validation_files_are_named_in_the_card(text: Path, tmp_path: Path) -> None:
    valid = [f"valid_source={text / 'valid.en'}", f"valid_target={text / 'valid.de'}"]
    train(recipe_for(text, "max_updates=1", *valid), tmp_path / "run")
    card = (tmp_path / "run/README.md").read_text()
    assert not (tmp_path / "run/held-out.tsv").exists()
    assert "2 pairs of" in card
    assert "of valid.en, valid.de." in card and str(text) not in card


def test_repetitions_of_held_out_pairs_are_counted(finished: Path) -> None:
    rows = (finished / "left-out.tsv").read_text().splitlines()
    repeated = sum(row.endswith("\trepeats a validation source") for row in rows)
    assert repeated
    assert f"| repeats a validation source | {repeated} |" in (finished / "README.md").read_text()


def test_the_card_counts_the_epoch_under_way(text: Path, tmp_path: Path) -> None:
    summary = train(recipe_for(text, "max_updates=9"), tmp_path / "run")
    assert (summary.progress.batch, summary.progress.batches) == (3, 6)
    assert "| epochs | 1.5 |" in (tmp_path / "run/README.md").read_text()


def test_languages_reach_the_bundle_and_its_card(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    languages = ["source_language=en", "data.target_language=de"]
    train(recipe_for(text, "max_updates=1", *languages), out)
    config = load_bundle(out).config
    assert (config.source_language, config.target_language) == ("en", "de")
    card = (out / "README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1])["language"] == ["en", "de"]
    assert "from `en` to `de`" in card
    tuned = tuning_recipe(text, out)
    assert (tuned.data.source_language, tuned.data.target_language) == ("en", "de")


def test_the_licence_reaches_the_bundle_and_its_card_and_stays(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(recipe_for(text, "max_updates=1", "license=cc-by: 4.0"), out)
    assert load_bundle(out).config.license == "cc-by: 4.0"
    card = (out / "README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by: 4.0"
    assert tuning_recipe(text, out).data.license == "cc-by: 4.0"
    assert tuning_recipe(text, out, "license=mit").data.license == "mit"


def test_languages_are_taken_from_suffixes_and_said(text: Path, tmp_path: Path) -> None:
    for name in ("en", "de"):
        (tmp_path / f"train.{name}").write_bytes((text / name).read_bytes())
    recipe = recipe_for(text, "max_updates=1", "average=0")
    files = recipe.data.renamed([str(tmp_path / "train.en"), str(tmp_path / "train.de")])
    said = Remembering()
    train(recipe.model_copy(update={"data": files}), tmp_path / "run", display=said)
    assert sum("languages: en to de" in line for line in said.lines) == 1
    config = load_bundle(tmp_path / "run").config
    assert (config.source_language, config.target_language) == ("en", "de")
    card = (tmp_path / "run/README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1])["language"] == ["en", "de"]
    stored = stored_recipe(tmp_path / "run")
    assert stored.data.source_language == "en"


@pytest.mark.slow
def test_white_space_around_lines_is_seen_neither_in_training_nor_afterwards(
    text: Path, tmp_path: Path
) -> None:
    """On `\\tone` or `two `, training, its validation, scoring and translation agree."""
    names, out = ["en", "de", "valid.en", "valid.de"], tmp_path / "run"
    for name in names:
        lines = (text / name).read_text(encoding="utf-8").splitlines()
        # A tab in every line would be a table.
        spaced = "".join(
            f"{' ' if row % 2 else chr(9)}{line}  \n" for row, line in enumerate(lines)
        )
        (tmp_path / name).write_text(spaced, encoding="utf-8")
    valid = [f"valid_source={tmp_path / 'valid.en'}", f"valid_target={tmp_path / 'valid.de'}"]
    train(recipe_for(tmp_path, *valid, "max_updates=150", "average=0"), out)
    translator = crosshead.load(out, "cpu")
    sources, targets = (
        (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in names[2:]
    )
    best = [line for line in logged(out) if line["kind"] == "valid" and line["best"]][-1]
    scored = translator.score(sources, targets)
    tokens = sum(len(each.pieces) for each in scored)
    found = -math.fsum(each.log_prob for each in scored) / tokens  # the logarithm of perplexity
    assert found == pytest.approx(best["nll"], rel=1e-5)
    bare = translator("one two")
    assert bare and translator("\t one two ") == f"\t {bare} "


@pytest.mark.parametrize("updates", [2, 1])
def test_a_run_that_has_come_so_far_says_that_nothing_is_left_to_train(
    updates: int, text: Path, tmp_path: Path
) -> None:
    out, display = tmp_path / "run", Remembering()
    train(recipe_for(text, "max_updates=2", "average=0"), out)
    weights = digest(out / "model.safetensors")
    recipe = recipe_for(text, f"max_updates={updates}", "average=0")
    summary = train(recipe, out, resume=True, display=display)
    (line,) = (line for line in display.lines if line.startswith("nothing to train"))
    assert "ended at update 2" in line and "give a larger budget (--max-updates" in line
    assert summary.reason.endswith("no update was made")
    assert digest(out / "model.safetensors") == weights


def test_a_run_that_diverges_ends(text: Path, tmp_path: Path) -> None:
    diverging = ["learning_rate=1e30", "clip_norm=0", "max_updates=60", "valid_every=50"]
    with pytest.raises(UserError, match=r"were not finite; lower train\.learning_rate$"):
        train(recipe_for(text, *diverging), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", mostly_slow(["accumulate=3", "recompute=true"], ["recompute=true"])
)
def test_a_run_in_parts_or_with_recomputed_activations_learns_the_same(
    change: str, text: Path, tmp_path: Path
) -> None:
    settings = ["dropout=0", "max_updates=20", "average=0"]
    for name, more in (("plain", []), ("other", [change])):
        train(recipe_for(text, *settings, *more), tmp_path / name)
    plain, other = (logged(tmp_path / name)[-1] for name in ("plain", "other"))
    assert plain["target_tokens"] == other["target_tokens"]
    losses = [
        [line["loss"] for line in logged(tmp_path / name) if line["kind"] == "valid"]
        for name in ("plain", "other")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


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


def test_a_run_whose_directory_is_renamed_is_resumed_from_its_last_checkpoint(
    text: Path, finished: Path, tmp_path: Path
) -> None:
    out, elsewhere = tmp_path / "run", tmp_path / "other" / "place"
    elsewhere.parent.mkdir()

    def rename() -> None:
        out.rename(elsewhere)
        out.mkdir()

    with pytest.raises(UserError, match=r"renamed or removed .* last checkpoint$"):
        train(recipe_for(text), out, should_stop=at_update(out, 11, rename))
    assert not list(out.iterdir())
    train(resumed_recipe(elsewhere, None, {}, []), elsewhere, resume=True)
    assert digest(elsewhere / "model.safetensors") == digest(finished / "model.safetensors")


def test_a_run_whose_directory_is_removed_ends(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(UserError, match="renamed or removed"):
        train(recipe_for(text), out, should_stop=at_update(out, 11, lambda: shutil.rmtree(out)))
    assert not out.exists()


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
    with pytest.raises(UserError, match="renamed or removed"):
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
