"""What training is not begun with: one line says what, where and what to do; nothing is written."""

import os
from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused

TINY = [
    *("--set", "tokenizer.kind=characters", "--set", "model.encoder_layers=1"),
    *("--set", "model.decoder_layers=1", "--set", "model.d_model=16", "--set", "model.d_ff=16"),
    *("--set", "model.heads=2", "--set", "precision=float32", "--threads", "1"),
    *("--max-updates", "2", "--device", "cpu"),
]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--set", "model.headz=8"], "unknown key 'model.headz'; did you mean 'heads'?"),
        (["--set", "nodel.heads=8"], "unknown section 'nodel'; did you mean 'model'?"),
        (["--set", "heads"], "expected section.key=value"),
        (["--set", "model.heads=many"], "model.heads"),
        (["--set", "model.heads=2.5"], "model.heads"),
        (["--set", "model.heads=3"], "d_model 16 is not divisible by heads 3"),
        (["--set", "model.d_ff=-4"], "model.d_ff"),
        (["--set", "train.learning_rate=nan"], "train.learning_rate"),
        (["--set", "decode.sample=true"], "sampling needs beam = 1"),
        (["--max-minutes", "-1"], "--max-minutes:"),
        (["--max-minutes", "nan"], "--max-minutes:"),
        (["--max-updates", "0"], "--max-updates:"),
        (["--threads", "-2"], "--threads:"),
        (["--threads", "1000"], "--threads is 1000, but"),
        (["--seed", str(2**70)], "--seed: expected 9,223,372,036,854,775,807 or less"),
        (["--set", f"model.d_model={10**15}"], "model.d_model: expected"),
        (["--set", f"model.d_model={10**18}"], "model.d_model: expected"),
        (["--preset", "tinny"], "unknown preset 'tinny'; did you mean 'tiny'?"),
        (["--device", "gpu"], "'gpu'"),
    ],
)
def test_wrong_settings(
    flags: list[str], words: str, tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    assert words in refused("train", "--out", tmp_path / "run", *corpus, *TINY, *flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model]\nheadz = 8\n", "unknown key 'model.headz'; did you mean 'heads'?"),
        ("[model]\nheads = 'x'\n", "model.heads"),
        ("[model\n", "not valid TOML"),
        ("model = 1\n", "model is a section"),
    ],
)
def test_a_wrong_recipe_is_named(
    text: str, words: str, tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    said = refused("train", path, "--out", tmp_path / "run", *corpus)
    assert str(path) in said
    assert words in said


def test_a_setting_with_a_line_break_and_a_name_that_is_no_text(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    out = ["--out", tmp_path / "run"]
    assert "model.heads" in refused("train", *out, *corpus, *TINY, "--set", "model.heads=a\nb")
    assert "section.key=value" in refused("train", *out, *corpus, *TINY, "--set", "model\nheads")
    said = refused("train", *out, "--source", "a\udcff", "--target", tmp_path / "target", *TINY)
    assert "not UTF-8" in said
    assert "not UTF-8" in refused("train", "--out", tmp_path / "b\udcff", *corpus, *TINY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_recipe_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    out = tmp_path / "run"
    assert "absent.toml: no such file" in refused("train", tmp_path / "absent.toml", "--out", out)
    assert "there is no recipe 'unheard-of'" in refused("train", "unheard-of", "--out", out)


def test_training_without_data(tmp_path: Path, refused: Refused) -> None:
    assert "no training data" in refused("train", "--out", tmp_path / "run", *TINY)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (b"a\nb\n", b"a\n", "has 2 lines but"),
        (b"", b"", "are empty"),
        (b"a\nb\xff\n", b"a\nb\n", "source:2:2: not UTF-8 (byte 0xFF)"),
        (b"\n" * 30, b"\n" * 30, "no pair has text on both sides"),
        (b"a\n", b"b\n", "too few"),
        (b"\n".join(b"%d" % n + b"a" * 5000 for n in range(30)), b"b\n" * 30, "data.max_length"),
    ],
)
def test_text_that_will_not_do(
    source: bytes, target: bytes, words: str,
    tmp_path: Path, corpus: list[object], refused: Refused,
) -> None:  # fmt: skip
    (tmp_path / "source").write_bytes(source)
    (tmp_path / "target").write_bytes(target)
    assert words in refused("train", "--out", tmp_path / "run", *corpus, *TINY)
    assert not (tmp_path / "run").exists()


def test_files_that_are_not_there(tmp_path: Path, refused: Refused) -> None:
    absent = tmp_path / "absent"
    files = ["--source", absent, "--target", absent]
    assert f"{absent}: no such file" in refused("train", "--out", tmp_path / "run", *files, *TINY)
    assert f"{absent}: no such file" in refused("score", BUNDLE, *files)
    said = refused("evaluate", BUNDLE, "--source", absent, "--reference", absent)
    assert f"{absent}: no such file" in said
    assert f"{absent}: no such file" in refused("translate", BUNDLE, absent)
    assert f"{tmp_path}: not a bundle" in refused("translate", BUNDLE, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    (tmp_path / "source").chmod(0)
    said = refused("train", "--out", tmp_path / "run", *corpus, *TINY)
    assert "source: cannot be read (Permission denied)" in said


def test_a_vocabulary_larger_than_the_text_allows(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    flags = ["--set", "tokenizer.kind=bpe", "--set", "tokenizer.vocab_size=5000"]
    said = refused("train", "--out", tmp_path / "run", *corpus, *TINY, *flags)
    assert "5000" in said or "5,000" in said
    assert "largest" in said or "at most" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_megabyte_in_a_line_is_too_long_for_training(
    tmp_path: Path, corpus: list[object]
) -> None:
    with (tmp_path / "source").open("ab") as source, (tmp_path / "target").open("ab") as target:
        source.write(b"a" * 2**20 + b"\n")
        target.write(b"b\n")
    out = tmp_path / "run"
    assert run([str(each) for each in ("train", "--out", out, *corpus, *TINY)]) == 0
    assert f"{tmp_path / 'source'}\t31\ttoo long" in (out / "left-out.tsv").read_text()


def test_a_directory_that_is_in_use(tmp_path: Path, corpus: list[object], refused: Refused) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    for flags in ([], ["--force"]):
        said = refused("train", "--out", tmp_path / "mine", *corpus, *TINY, *flags)
        assert "is not empty and holds no run" in said
    assert (tmp_path / "mine" / "thesis").read_text() == "x"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("")
    for flags in ([], ["--force"]):  # a recipe alone is somebody's, and no run
        said = refused("train", "--out", tmp_path / "run", *corpus, *TINY, *flags)
        assert "is not empty and holds no run" in said
    (tmp_path / "run" / "log.jsonl").write_text("")
    assert "--force replaces it" in refused("train", "--out", tmp_path / "run", *corpus, *TINY)
    (tmp_path / "run" / "thesis").write_text("x")
    said = refused("train", "--out", tmp_path / "run", *corpus, *TINY, "--force")
    assert "--force removes nothing" in said
    assert (tmp_path / "run" / "thesis").read_text() == "x"


def test_resuming_what_cannot_be_resumed(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    out = ["--out", tmp_path / "run"]
    assert "no run with a checkpoint to resume" in refused("train", "--resume", *out)
    assert "--force" in refused("train", "--resume", *out, "--force")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("[train]\nmax_updates = 1\n")
