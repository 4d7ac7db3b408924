"""Messages name flags where flags were typed, and keys where keys were written."""

import re
from pathlib import Path

import pytest

from tests.cli.tools import TINY, Refused, output_of, write_corpus


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (
            [],
            "no training data: give two line-aligned files (--source and --target) or files with "
            "both sides (--pairs)",
        ),
        (
            ["--source", "a", "--source", "b", "--target", "c"],
            "--source names 2 files but --target 1",
        ),
        (
            ["--pairs", "x.jsonl"],
            "--pairs: x.jsonl is JSON Lines; name the fields of source and",
        ),
        (["--source", "a"], "--source names 1 file but --target 0; give each source file"),
        (["--target", "a"], "--target names 1 file but --source 0; give each source file"),
        (
            ["--pairs", "x.tsv", "--valid-source", "a", "--valid-source", "b"],
            "--valid-source names 2 files but --valid-target 0; give each source file",
        ),
        (["--valid-pairs", "x.jsonl"], "--valid-pairs: x.jsonl is JSON Lines; name the"),
        (["--pairs", "x.tsv", "--fields", "a"], "--fields needs two fields"),
        (["--pairs", "x.tsv", "--fields", "a,a"], "--fields needs two fields"),
        (["--text", "a", "--pairs", "b"], "--pairs is for translation"),
        (["--pairs", "b", "--model", "x"], "--model: unknown architecture 'x'"),
        (["--pairs", "b", "--max-minutes", "-1"], "--max-minutes: expected more than 0"),
        (["--pairs", "b", "--set", "train.max_minutes=-1.0"], "train.max_minutes: expected more"),
        (["--pairs", "b", "--set", "max_minutes=-1.0"], "train.max_minutes: expected more"),
        (
            ["--pairs", "b", "--max-minutes", "3", "--set", "max_minutes=-1.0"],
            "train.max_minutes: expected more",
        ),
        (["--text", "a", "--set", "data.pairs=b"], "data.pairs is for translation; a model of "),
    ],
)
def test_flags_are_called_flags(
    typed: list[str], words: str, tmp_path: Path, refused: Refused
) -> None:
    said = refused("train", "--out", tmp_path / "run", *typed)
    assert said.startswith(f"crosshead: error: {words}")
    assert not (tmp_path / "run").exists()


def test_a_recipe_is_spoken_of_in_its_keys(tmp_path: Path, refused: Refused) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("[data]\nsource = ['a', 'b']\ntarget = ['c']\n")
    said = refused("train", recipe, "--out", tmp_path / "run")
    assert "data.source names 2 files but data.target 1" in said
    both = refused("train", recipe, "--out", tmp_path / "run", "--target", "d", "--target", "e",
                   "--target", "f")  # fmt: skip
    assert "data.source names 2 files but" in both  # the recipe by itself is at fault


@pytest.mark.parametrize("name", ["data.source", "train.seed"])
def test_names_of_files_stay(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.de").write_text("a\n")
    said = refused("train", "--out", "run", "--source", name, "--target", "s.de", "--seed", 1)
    assert said.startswith(f"crosshead: error: {name}: no such file")


def test_a_resumed_run_names_flags_only_where_they_were_typed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    source, target = write_corpus(tmp_path)
    out = tmp_path / "run"
    resume = ["train", "--out", out, "--resume"]
    files = ["--source", source, "--target", target]
    output_of(["train", "--out", out, *files, *TINY, "--max-updates", 1, "--fields", "1,2"], capfd)
    began = f"but the run in {out} began with"
    for typed, words in (
        (["--fields", "a,b"], f"--fields is a, b, {began} 1, 2"),
        (["--seed", 5, "--set", "train.seed=6"], f"train.seed is 6, {began} 1"),
        (
            ["--model", "recurrent"],
            f"--model is 'recurrent', but the run in {out} has 'transformer'",
        ),
    ):
        assert refused(*resume, *typed).startswith(f"crosshead: error: {words}")
    recipe = out / "recipe.toml"
    recipe.write_text(re.sub(r"(?m)^fields = \[[^]]*\]", 'fields = ["a", "b"]', recipe.read_text()))
    said = refused(*resume, "--max-updates", 2)
    changed = f"data.fields is a, b, {began} 1, 2"
    assert said.startswith(f"crosshead: error: {recipe}: {changed}")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--set", "lr=0.1"], "unknown key 'lr'; did you mean 'learning_rate'?"),
        (["--set", "train.lr=0.1"], "unknown key 'train.lr'; did you mean 'learning_rate'?"),
        (["--set", "epochs=3"], "did you mean 'max_epochs'?"),
        (["--set", "batch_size=3"], "did you mean 'batch_tokens'?"),
        (["--set", "hidden_size=3"], "did you mean 'd_model'?"),
        (["--set", "model.hidden-size=3"], "did you mean 'd_model'?"),
        (["--set", "num_layers=3"], "did you mean 'encoder_layers' or 'decoder_layers'"),
        (["--set", "bpe=1"], "did you mean 'tokenizer.kind'?"),
        (["--set", "train.bpe=1"], "did you mean 'tokenizer.kind'?"),
        (["--fp16", "x"], "did you mean --precision?"),
        (["--gpu", "0"], "did you mean --device?"),
        (["--bpe", "1"], "did you mean --set tokenizer.kind=...?"),
        (["--lr", "0.1"], "No such option: --lr; did you mean --set learning_rate=...?"),
        (["--epochs", "3"], "No such option: --epochs; did you mean --max-epochs?"),
        (["--batch-size", "3"], "did you mean --set batch_tokens=...?"),
        (["--num-layers", "3"], "--set encoder_layers=... or --set decoder_layers=..."),
        (["--src", "x"], "did you mean --source?"),
    ],
)
def test_names_of_other_toolkits_are_known(
    typed: list[str], words: str, tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    assert words in refused("train", "--out", tmp_path / "run", *corpus, *typed)
    assert not (tmp_path / "run").exists()
