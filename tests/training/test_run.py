import dataclasses
import hashlib
import json
import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import crosshead
from crosshead.bundle import load_bundle, save_bundle
from crosshead.config import read_toml
from crosshead.errors import BundleError, ConfigError, DataError, UserError
from crosshead.training import run as run_module
from crosshead.training.checkpoint import list_checkpoints
from crosshead.training.hardware import Machine
from crosshead.training.log import Silent
from crosshead.training.recipe import Recipe, compose
from crosshead.training.run import train
from crosshead.training.settings import new_recipe

WORDS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs",
    "seven": "sieben", "eight": "acht",
}  # fmt: skip
SMALL = [
    "tokenizer.kind=words", "tokenizer.vocab_size=100", "encoder_layers=1", "decoder_layers=1",
    "d_model=16", "d_ff=16", "heads=2", "model.dropout=0.1", "train.batch_tokens=200",
    "learning_rate=0.01", "warmup=10", "max_updates=18", "valid_every=6", "precision=float32",
    "threads=1", "keep_last=3", "average=3", "patience=0", "log_every=1", "data.max_length=20",
    "data.valid_size=12", "max_extra=3",
]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `en` and `de`: 200 pairs, and three that nobody can learn from."""
    rng = random.Random(1)
    lines = [rng.choices(list(WORDS), k=rng.randint(1, 6)) for _ in range(200)]
    source = [" ".join(line) for line in lines]
    target = [" ".join(WORDS[word] for word in line) for line in lines]
    source[40:40], target[40:40] = [" "], ["eins"]
    source[90:90], target[90:90] = ["one " * 30], ["eins " * 30]
    source[150:150], target[150:150] = ["one"], ["eins " * 19]
    folder = tmp_path_factory.mktemp("text")
    (folder / "en").write_text("\n".join(source) + "\n", encoding="utf-8")
    (folder / "de").write_text("\n".join(target) + "\n", encoding="utf-8")
    (folder / "valid.en").write_text("one two\nthree\n", encoding="utf-8")
    (folder / "valid.de").write_text("eins zwei\ndrei\n", encoding="utf-8")
    return folder


def recipe_for(text: Path, *assignments: str) -> Recipe:
    data = {"source": str(text / "en"), "target": str(text / "de")}
    return compose(flags={"data": data}, assignments=[*SMALL, *assignments])


def tuning_recipe(text: Path, base: Path, *assignments: str) -> Recipe:
    """As `recipe_for`, but with the model and the tokenizer of a bundle."""
    data = {"source": [str(text / "en")], "target": [str(text / "de")]}
    training = [each for each in SMALL if not each.startswith(("model.", "tokenizer."))]
    return new_recipe(None, None, {"data": data}, [*training, *assignments], base)


@pytest.fixture(scope="module")
def finished(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went to its end; to be read only."""
    out = tmp_path_factory.mktemp("runs") / "words"
    train(recipe_for(text), out, command="crosshead train --out words")
    return out


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def logged(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def tree(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): digest(path) for path in out.rglob("*") if path.is_file()}


def stop_after(out: Path, update: int) -> Callable[[], bool]:
    """What a signal during that update does (the update before it stands in the log)."""
    log = out / "log.jsonl"
    return lambda: log.is_file() and any(line["update"] >= update - 1 for line in logged(out))


class Remembering(Silent):
    """Keeps the lines that stay."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_the_directory_of_a_run(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "config.json", "model.safetensors", "tokenizer.json", "README.md", "recipe.toml",
        "log.jsonl", "left-out.tsv", "checkpoints", "training.png",
    }  # fmt: skip
    assert not [path for path in finished.rglob("*") if path.name.endswith(".tmp")]
    assert [place.name[-2:] for place in list_checkpoints(finished / "checkpoints")] == [
        "06", "12", "18",
    ]  # fmt: skip


def test_what_is_left_out_is_written_down(finished: Path, text: Path) -> None:
    header, *rows = (finished / "left-out.tsv").read_text().splitlines()
    assert header == "file\tline\treason"
    held_out = [row for row in rows if row.endswith("\trepeats a held-out pair")]
    assert len(held_out) == 9
    assert [row for row in rows if row not in held_out] == [
        f"{text / 'en'}\t41\tempty side",
        f"{text / 'en'}\t91\ttoo long",
        f"{text / 'en'}\t151\tlength ratio",
    ]


def test_the_log_ends_with_the_scores_of_the_bundle(finished: Path) -> None:
    lines = logged(finished)
    assert [line["update"] for line in lines if line["kind"] == "train"] == list(range(1, 19))
    assert [line["update"] for line in lines if line["kind"] == "valid"] == [6, 12, 18]
    assert [line["kind"] for line in lines].index("end") == len(lines) - 1
    assert lines[-1]["reason"] == "max_updates 18 is reached"
    train_losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert train_losses[-1] < train_losses[0]


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
    assert str(text / "en") in body and digest(text / "de") in body
    assert "crosshead train --out words" in body
    for phrase in ("empty side", "too long", "length ratio", "float32", "version:"):
        assert phrase in body
    settings = body.split("```toml\n")[1].split("```")[0]
    assert compose(recipe=tomllib.loads(settings)) == recipe_for(text)


def test_the_bundle_translates(finished: Path) -> None:
    translator = crosshead.load(finished)
    assert isinstance(translator("one two"), str)
    several = translator(["one two", "", "three"])
    assert len(several) == 3 and several[1] == ""
    assert several[0] == translator("one two")


def test_the_resolved_recipe_can_be_run_again(finished: Path, text: Path, tmp_path: Path) -> None:
    stored = compose(recipe=read_toml(finished / "recipe.toml"))
    assert stored == recipe_for(text)
    train(stored, tmp_path / "again")
    assert digest(tmp_path / "again/model.safetensors") == digest(finished / "model.safetensors")


@pytest.mark.parametrize("stop", [4, 12, 18])
def test_a_run_that_was_stopped_and_resumed_gives_the_same_bundle(
    finished: Path, text: Path, tmp_path: Path, stop: int
) -> None:
    out = tmp_path / "words"
    first = train(recipe_for(text), out, should_stop=stop_after(out, stop))
    assert first.interrupted and first.progress.update == stop
    assert not (out / "config.json").exists()
    second = train(recipe_for(text), out, resume=True)
    assert not second.interrupted and second.progress.update == 18
    for name in ("model.safetensors", "config.json", "tokenizer.json", "recipe.toml"):
        assert digest(out / name) == digest(finished / name), name
    assert [line["update"] for line in logged(out) if line["kind"] == "train"] == list(range(1, 19))


def test_a_run_can_be_prolonged(text: Path, tmp_path: Path) -> None:
    train(recipe_for(text, "max_updates=6"), tmp_path / "run")
    display = Remembering()
    longer = recipe_for(text, "max_updates=8", "train.precision=auto")
    summary = train(longer, tmp_path / "run", resume=True, display=display)
    assert summary.progress.update == 8
    assert compose(recipe=read_toml(tmp_path / "run/recipe.toml")) == recipe_for(
        text, "max_updates=8"
    )
    assert not [line for line in display.lines if "to the bit" in line]
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


def test_fine_tuning_keeps_tokenizer_and_shape(finished: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    other = tuning_recipe(text, finished, "tokenizer.kind=characters")
    with pytest.raises(ConfigError, match=r"leave tokenizer\.kind out"):
        train(other, out, start=finished)
    assert not out.exists()
    changed = ["model.dropout=0.2", "max_updates=2", "learning_rate=1e-20"]
    same = tuning_recipe(text, finished, *changed)
    train(same, out, start=finished)
    assert digest(out / "tokenizer.json") == digest(finished / "tokenizer.json")
    shape, before = crosshead.load(out).model.config, crosshead.load(finished).model.config
    assert shape == before.model_copy(update={"dropout": 0.2})
    # With a learning rate of nothing, the weights are those it began with.
    lines = ["one two", "three four five"]
    assert crosshead.load(out)(lines) == crosshead.load(finished)(lines)
    stored = compose(recipe=read_toml(out / "recipe.toml"))
    assert stored.model == shape and stored.tokenizer.kind == "words"


def test_fine_tuning_keeps_one_tokenizer_a_side(text: Path, tmp_path: Path) -> None:
    separate = recipe_for(text, "tokenizer.joint=false", "tie=two-way", "max_updates=2")
    train(separate, tmp_path / "base")
    tuned = tuning_recipe(text, tmp_path / "base", "max_updates=2")
    train(tuned, tmp_path / "tuned", start=tmp_path / "base")
    for name in ("source.json", "target.json"):
        assert digest(tmp_path / "tuned" / name) == digest(tmp_path / "base" / name)
    assert not (tmp_path / "tuned/tokenizer.json").exists()
    assert isinstance(crosshead.load(tmp_path / "tuned")("one two"), str)


def test_fine_tuning_from_what_is_no_bundle_is_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError):
        train(recipe_for(text), tmp_path / "out", start=text)
    assert not (tmp_path / "out").exists()


def test_validation_files_are_named_in_the_card(text: Path, tmp_path: Path) -> None:
    valid = [f"valid_source={text / 'valid.en'}", f"valid_target={text / 'valid.de'}"]
    train(recipe_for(text, "max_updates=1", *valid), tmp_path / "run")
    card = (tmp_path / "run/README.md").read_text()
    assert "2 pairs of" in card
    assert str(text / "valid.en") in card and str(text / "valid.de") in card


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


def test_there_must_be_something_to_resume(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run with a checkpoint"):
        train(recipe_for(text), tmp_path / "absent", resume=True)
    assert not (tmp_path / "absent").exists()


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


def test_other_threads_are_warned_of_and_kept(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "choose_machine", machine_with(1))
    train(recipe_for(text, "max_updates=2", "threads=0"), tmp_path / "run")
    stored = compose(recipe=read_toml(tmp_path / "run/recipe.toml"))
    assert stored.train.threads == 1  # and not 0, which is another number elsewhere
    monkeypatch.setattr(run_module, "choose_machine", machine_with(3))
    display = Remembering()
    longer = recipe_for(text, "max_updates=3", "threads=3")
    train(longer, tmp_path / "run", resume=True, display=display)
    (warning,) = (line for line in display.lines if "to the bit" in line)
    assert "with 3 threads, where the run began with 1" in warning
    assert compose(recipe=read_toml(tmp_path / "run/recipe.toml")).train.threads == 3


def machine_with(threads: int) -> Callable[..., Machine]:
    """A choice of machine that leaves PyTorch's threads as they are."""
    return lambda config, device: Machine(device, threads, torch.float32, "for a test")


def test_fine_tuning_does_not_shorten_the_reach(finished: Path, text: Path, tmp_path: Path) -> None:
    bundle = load_bundle(finished)
    far = bundle.config.model_copy(update={"longest_source": 77})
    save_bundle(tmp_path / "far", dataclasses.replace(bundle, config=far), "card")
    recipe = tuning_recipe(text, tmp_path / "far", "max_updates=4")
    out = tmp_path / "tuned"
    train(recipe, out, start=tmp_path / "far", should_stop=stop_after(out, 2))
    train(recipe, out, resume=True)
    assert load_bundle(out).config.longest_source == 77
    longest = max(len(line.split()) for line in (text / "en").read_text().splitlines()[:40])
    assert load_bundle(finished).config.longest_source == longest


def test_fine_tuning_samples_subwords_as_strongly_as_the_recipe_says(
    text: Path, tmp_path: Path
) -> None:
    bpe = ["tokenizer.kind=bpe", "tokenizer.vocab_size=300", "data.max_length=60", "max_updates=2"]
    train(recipe_for(text, *bpe), tmp_path / "base")
    made = {}
    for name, more in (("plain", []), ("sampled", ["tokenizer.sampling=0.5"])):
        recipe = tuning_recipe(
            text, tmp_path / "base", "data.max_length=60", "max_updates=2", *more
        )
        train(recipe, tmp_path / name, start=tmp_path / "base")
        made[name] = load_bundle(tmp_path / name)
    assert made["plain"].source_tokenizer.sampling == 0.0
    assert made["sampled"].source_tokenizer.sampling == 0.5
    tokens = [
        [line["target_tokens"] for line in logged(tmp_path / name) if line["kind"] == "train"]
        for name in made
    ]
    assert tokens[0] != tokens[1]


@pytest.mark.parametrize("broken", ["write_left_out", "RunLog", "fit"])
def test_a_start_that_fails_leaves_nothing(
    broken: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_for(text, "max_updates=1")

    def fail(*arguments: Any, **named: Any) -> None:
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, broken, fail)
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
    with pytest.raises(UserError, match="--force would remove it"):
        train(tuning_recipe(text, out), out, start=out, force=True)
    assert tree(out) == before


def test_repetitions_of_held_out_pairs_are_counted(finished: Path) -> None:
    rows = (finished / "left-out.tsv").read_text().splitlines()
    repeated = sum(row.endswith("\trepeats a held-out pair") for row in rows)
    assert repeated
    assert f"| repeats a held-out pair | {repeated} |" in (finished / "README.md").read_text()


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


def test_the_scores_of_the_card_stand_in_the_bundle(finished: Path) -> None:
    scores = load_bundle(finished).config.scores
    assert [score.metric for score in scores] == ["BLEU", "chrF2"]
    card = (finished / "README.md").read_text()
    assert all(f"| {score.metric} | {score.value:.2f} |" in card for score in scores)


def test_a_missing_matplotlib_is_a_line_and_no_more(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(log: Path, picture: Path) -> None:
        raise UserError("matplotlib is not installed")

    monkeypatch.setattr(run_module, "plot_curve", missing)
    display = Remembering()
    train(recipe_for(text, "max_updates=1"), tmp_path / "run", display=display)
    assert display.lines[-1] == "matplotlib is not installed"
    load_bundle(tmp_path / "run")


def test_a_name_that_is_not_utf8_is_refused_before_anything_is_written(
    text: Path, tmp_path: Path
) -> None:
    recipe = recipe_for(text)
    with pytest.raises(UserError, match="not UTF-8"):
        train(recipe, tmp_path / "b\udcff")
    with pytest.raises(UserError, match="not UTF-8"):
        train(recipe, tmp_path / "run", command="crosshead train --from b\udcff")
    assert not list(tmp_path.iterdir())


def own_text(text: Path, folder: Path) -> Path:
    """A copy of the text that a test may change."""
    for name in ("en", "de"):
        (folder / name).write_bytes((text / name).read_bytes())
    return folder


def test_the_sizes_of_a_run_follow_its_text_and_are_kept(text: Path, tmp_path: Path) -> None:
    out, display = tmp_path / "run", Remembering()
    left_open = [each for each in SMALL if not each.startswith(("tokenizer.", "warmup", "valid_"))]
    data = {"source": str(text / "en"), "target": str(text / "de")}
    recipe = compose(flags={"data": data}, assignments=[*left_open, "data.max_length=60"])
    assert (recipe.tokenizer.vocab_size, recipe.train.warmup) == (None, None)
    stop = stop_after(out, 4)
    train(recipe, out, display=display, should_stop=stop)
    stored = compose(recipe=read_toml(out / "recipe.toml"))
    size = stored.tokenizer.vocab_size
    assert size is not None and 256 < size < 500
    assert (stored.train.warmup, stored.train.valid_every) == (1, 200)  # of 18 updates
    (sizes,) = (line for line in display.lines if "warm-up" in line)
    assert f"vocabulary {size:,}, " in sizes
    assert "warm-up of 1 update, validation every 200 updates" in sizes
    train(recipe, out, resume=True)
    assert load_bundle(out).config.source_vocabulary == size
    assert compose(recipe=read_toml(out / "recipe.toml")) == stored
    valid = [line["update"] for line in logged(out) if line["kind"] == "valid"]
    assert valid == [18]  # a short run is validated at its end


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines, "one two"], r"began with \d+ pairs .* now give \d+"),
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


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "damaged"),
        (lambda path: path.write_bytes(b"x"), "damaged"),
    ],
)
def test_best_weights_that_are_lost_are_missed_before_training(
    damage: Callable[[Path], None], words: str, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    train(recipe_for(text), out, should_stop=stop_after(out, 8))
    before = logged(out)
    damage(out / "checkpoints/best.safetensors")
    with pytest.raises(BundleError, match=rf"best\.safetensors: {words}") as caught:
        train(recipe_for(text), out, resume=True)
    assert "\n" not in str(caught.value)
    assert logged(out) == before


def test_a_run_goes_on_from_another_working_directory_and_keeps_the_names_that_were_typed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = own_text(text, tmp_path), tmp_path / "run"
    monkeypatch.chdir(folder)
    data = {"source": "en", "target": "de", "valid_source": "en", "valid_target": "de"}
    recipe = compose(flags={"data": data}, assignments=SMALL)
    train(recipe, out, command="crosshead train --source en", should_stop=stop_after(out, 2))
    stored = compose(recipe=read_toml(out / "recipe.toml"))
    assert stored.data.source == [str(folder / "en")]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    longer = stored.model_copy(update={"decode": stored.decode.model_copy(update={"beam": 3})})
    train(longer, out, resume=True, command="crosshead train --resume")
    card = (out / "README.md").read_text()
    assert str(folder) not in card
    assert "| `en` | 203 |" in card and 'source = ["en"]' in card
    assert "Validation: 203 pairs of en, de." in card
    assert "crosshead train --source en\ncrosshead train --resume\n" in card
    assert "Search: beam 3." in card


def test_the_average_is_in_the_log_and_scores_are_named_alike(finished: Path) -> None:
    lines = logged(finished)
    (average,) = (line for line in lines if line["kind"] == "average")
    valid = [line for line in lines if line["kind"] == "valid"]
    assert average.keys() - {"weights"} == valid[0].keys()
    assert average["weights"] == "the average of 3 checkpoints, updates 6 to 18"
    end = lines[-1]
    assert end["search"] == "beam 4"
    assert (end["weights"] == average["weights"]) == average["best"]
    (bleu,) = (s.value for s in load_bundle(finished).config.scores if s.metric == "BLEU")
    assert end["bleu"] == bleu and {"chrf2"} <= end.keys()


def test_greedy_bleu_is_called_so(text: Path, tmp_path: Path) -> None:
    display = Remembering()
    train(recipe_for(text), tmp_path / "run", display=display)
    said = [line for line in display.lines if "BLEU" in line]
    assert len(said) == 4 and all("BLEU (greedy)" in line for line in said)


def test_a_run_that_is_replaced_is_there_until_the_new_one_has_a_bundle(
    text: Path, tmp_path: Path
) -> None:
    out, recipe = tmp_path / "run", recipe_for(text)
    train(recipe_for(text, "max_updates=1"), out)
    before, display = tree(out), Remembering()
    train(recipe, out, force=True, should_stop=lambda: True, display=display)
    assert tree(out) == before  # stopped before its first update
    kept = tmp_path / ".run.replaced"
    assert [line for line in display.lines if str(kept) in line]
    train(recipe, out, force=True, should_stop=stop_after(out, 2))
    assert tree(kept) == before
    assert not (out / "config.json").exists()
    train(recipe, out, resume=True)
    assert not kept.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


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
