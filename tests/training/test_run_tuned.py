"""Runs that begin with the model of a bundle."""

import dataclasses
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.io import save_bundle
from crosshead.bundle.origin import ImportOrigin
from crosshead.errors import BundleError, ConfigError
from crosshead.tasks.registry import load_bundle
from crosshead.training.directory import stored_recipe
from crosshead.training.run import train
from tests.addons.interop.small_bundles import small_bundle
from tests.training.runs import digest, logged, recipe_for, stop_after, tuning_recipe


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
    stored = stored_recipe(out)
    assert stored.model == shape and stored.tokenizer.kind == "words"


def test_the_best_of_fine_tuning_is_not_worse_than_its_start(
    finished: Path, text: Path, tmp_path: Path
) -> None:
    spoilt = tuning_recipe(text, finished, "max_updates=4", "learning_rate=9.0", "warmup=1")
    summary = train(spoilt, tmp_path / "tuned", start=finished)
    first, *rest = (line for line in logged(tmp_path / "tuned") if line["kind"] == "valid")
    assert (first["update"], first["best"]) == (0, True)
    assert all(line["nll"] > first["nll"] for line in rest)
    lines = ["one two", "three four five"]
    assert crosshead.load(tmp_path / "tuned")(lines) == crosshead.load(finished)(lines)
    assert summary.weights.endswith("at update 0 (the initial weights)")
    assert summary.validated["bleu"] == first["bleu"]


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


@pytest.mark.slow
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


def test_a_tuned_import_says_where_it_came_from(text: Path, tmp_path: Path) -> None:
    """Also after a resumed run, and after fine-tuning again."""
    origin = ImportOrigin(kind="huggingface", name="opus-mt-en-de", sha256="ab" * 32)
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_ff": 16, "heads": 2}
    imported = small_bundle(shape, {"kind": "sentencepiece"}, ends=False)
    config = imported.config.model_copy(update={"origin": origin})
    save_bundle(tmp_path / "base", dataclasses.replace(imported, config=config), "# base\n")
    base = tmp_path / "base"
    for name in ("tuned", "again"):
        recipe = tuning_recipe(text, base, "max_updates=2", "average=0")
        out = tmp_path / name
        stopped = train(recipe, out, start=base, should_stop=stop_after(out, 2))
        assert stopped.interrupted
        train(stored_recipe(out), out, resume=True)
        assert load_bundle(out).config.origin == origin
        card = (out / "README.md").read_text()
        assert "sentence pairs, fine-tuned from `opus-mt-en-de`" in card
        assert "a model of kind huggingface" in card and origin.sha256 in card
        base = out
