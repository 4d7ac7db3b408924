import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from crosshead.bundle.config import FORMAT, BundleScore
from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import weights_of
from crosshead.errors import BundleError, UserError
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.registry import load_bundle
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.average import average_bundles

BUNDLE = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


def variant(directory: Path, factor: float, longest: int) -> Path:
    """The stored bundle with its weights times `factor`."""
    bundle = load_bundle(BUNDLE)
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter.mul_(factor)
    config = bundle.config.model_copy(update={"longest_source": longest})
    save_bundle(directory, dataclasses.replace(bundle, config=config), "card")
    return directory


def word_bundle(directory: Path, *words: str) -> Path:
    """A fresh bundle whose tokenizer knows these words."""
    tokenizer = train_tokenizer(TokenizerConfig(kind="words"), [" ".join(words)])
    size = tokenizer.vocab_size
    shape = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)
    config = TextBundleConfig(
        format=FORMAT,
        model=shape,
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=5,
    )
    model = build_model(shape, size, size).eval()
    save_bundle(directory, TextBundle(config, model, tokenizer, tokenizer), "card")
    return directory


def test_weights_are_the_mean_and_the_reach_is_the_longest(tmp_path: Path) -> None:
    parts = [variant(tmp_path / "a", 1.0, 20), variant(tmp_path / "b", 3.0, 40)]
    average_bundles(parts, tmp_path / "mean", command="crosshead average a b")
    mean, stored = load_bundle(tmp_path / "mean"), load_bundle(BUNDLE)
    weights = weights_of(mean.model)
    for name, weight in weights_of(stored.model).items():
        torch.testing.assert_close(weights[name], 2 * weight)
    assert mean.config.longest_source == 40
    card = (tmp_path / "mean" / "README.md").read_text()
    assert all(f"- `{part.name}`" in card for part in parts) and str(tmp_path) not in card
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["language"] == ["en", "de"] and front["pipeline_tag"] == "translation"
    assert "model-index" not in front and "crosshead.load" in card
    assert "translates from `en` to `de`." in card
    assert "```sh\ncrosshead average a b\n```" in card and f"torch {torch.__version__}" in card


def test_the_card_of_a_mean_of_models_of_text_says_how_these_are_used(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), ["abc"])
    size = tokenizer.vocab_size
    shape = LanguageConfig(layers=1, d_model=8, d_ff=8, heads=2)
    config = TextBundleConfig(
        format=FORMAT,
        task="language",
        model=shape,
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=5,
    )
    parts = [tmp_path / "a", tmp_path / "b"]
    for part in parts:
        model = build_model(shape, size, size).eval()
        save_bundle(part, TextBundle(config, model, tokenizer, tokenizer), "card")
    average_bundles([str(part) for part in parts], str(tmp_path / "mean"))
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "crosshead generate" in card and "crosshead translate" not in card
    assert yaml.safe_load(card.split("---\n")[1])["pipeline_tag"] == "text-generation"


def test_what_a_kill_left_unfinished_is_no_hindrance(tmp_path: Path) -> None:
    out = tmp_path / "mean"
    out.mkdir()
    (out / ".model.safetensors.0.crosshead").write_bytes(b"cut off")
    average_bundles([BUNDLE, BUNDLE], out)
    assert load_bundle(out) and not list(out.glob(".*"))


def test_scores_of_other_weights_are_not_kept(tmp_path: Path) -> None:
    bundle = load_bundle(BUNDLE)
    score = BundleScore(metric="BLEU", value=1.0, signature="s", test_set="t")
    config = bundle.config.model_copy(update={"scores": [score]})
    save_bundle(tmp_path / "scored", dataclasses.replace(bundle, config=config), "card")
    average_bundles([tmp_path / "scored", BUNDLE], tmp_path / "mean")
    assert load_bundle(tmp_path / "mean").config.scores == []


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not UTF-8"):
        average_bundles([BUNDLE, BUNDLE], tmp_path / "b\udcff")
    (tmp_path / "a\udcff").symlink_to(BUNDLE)
    with pytest.raises(UserError, match="not UTF-8"):
        average_bundles([BUNDLE, tmp_path / "a\udcff"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_bundles_are_refused(count: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"expected two bundles or more to average, found {count}"):
        average_bundles([BUNDLE][:count], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_another_shape_is_refused_by_its_key(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(BUNDLE, other)
    values = json.loads((other / "config.json").read_text())
    values["model"]["activation"] = "gelu"
    (other / "config.json").write_text(json.dumps(values))
    with pytest.raises(BundleError, match=r"other: model\.activation is 'gelu'.*'relu'"):
        average_bundles([BUNDLE, other], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("words", [("c", "d"), ("a", "b", "c")])
def test_another_tokenizer_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    first = word_bundle(tmp_path / "first", "a", "b")
    other = word_bundle(tmp_path / "other", *words)
    with pytest.raises(BundleError, match="its tokenizer differs from the tokenizer of"):
        average_bundles([first, other], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="already exists"):
            average_bundles([BUNDLE, BUNDLE], out)
