"""Bad input of every kind: one line that says what, where and what to do; nothing is written."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.cli import run

ROOT = Path(__file__).parent.parent
BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"
TINY = [
    *("--set", "tokenizer.kind=characters", "--set", "model.encoder_layers=1"),
    *("--set", "model.decoder_layers=1", "--set", "model.d_model=16", "--set", "model.d_ff=16"),
    *("--set", "model.heads=2", "--set", "precision=float32", "--threads", "1"),
    *("--max-updates", "2", "--device", "cpu"),
]

Refused = Callable[..., str]


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Refused:
    """Run a command line that must be refused, and return the one line that says why."""

    def call(*arguments: object) -> str:
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert code == 2, captured.err
        assert captured.out == ""
        said = captured.err.splitlines()
        assert len(said) == 1, captured.err
        assert said[0].startswith("crosshead: error: ")
        return said[0]

    return call


@pytest.fixture
def corpus(tmp_path: Path) -> list[object]:
    """The flags of a training run that would work."""
    (tmp_path / "source").write_text("".join(f"a {n} b\n" for n in range(30)))
    (tmp_path / "target").write_text("".join(f"b {n} a\n" for n in range(30)))
    return ["--source", tmp_path / "source", "--target", tmp_path / "target"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'? See `crosshead --help`"),
        (["data"], "Missing command"),
        (["train"], "Missing option '--out'"),
        (["translate"], "Missing argument 'BUNDLE'"),
        (["translate", BUNDLE, "--beem", "5"], "No such option"),
        (
            ["translate", BUNDLE, "--beam", "five"],
            "Invalid value for '--beam': expected a whole number;",
        ),
        (
            ["translate", BUNDLE, "--n-best", "0"],
            "Invalid value for '--n-best': expected a number greater than",
        ),
        (["data", "get", "multi30"], "did you mean 'multi30k'"),
    ],
)
def test_wrong_usage(arguments: list[object], words: str, refused: Refused) -> None:
    assert words in refused(*arguments)


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
        (["--set", "decode.sample=true"], "sampling keeps no beam"),
        (["--max-minutes", "-1"], "train.max_minutes"),
        (["--max-minutes", "nan"], "train.max_minutes"),
        (["--max-updates", "0"], "train.max_updates"),
        (["--threads", "-2"], "train.threads"),
        (["--threads", "1000"], "train.threads is 1000, but"),
        (["--seed", str(2**70)], "train.seed: expected at most 2^63 - 1"),
        (["--set", f"model.d_model={10**15}"], "not enough memory"),
        (["--set", f"model.d_model={10**18}"], "not enough memory"),
        (["--preset", "tinny"], "there is no preset 'tinny'; did you mean 'tiny'?"),
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
        (b"\n".join(b"%d" % n + b"a" * 5000 for n in range(30)), b"b\n" * 30, "too few"),
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
    assert f"{tmp_path}: is a directory; expected" in refused("translate", BUNDLE, tmp_path)


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


def test_a_megabyte_in_a_line_is_too_long_for_training(
    tmp_path: Path, corpus: list[object]
) -> None:
    with (tmp_path / "source").open("ab") as source, (tmp_path / "target").open("ab") as target:
        source.write(b"a" * 2**20 + b"\n")
        target.write(b"b\n")
    out = tmp_path / "run"
    assert run([str(each) for each in ("train", "--out", out, *corpus, *TINY)]) == 0
    assert f"{tmp_path / 'source'}\t31\ttoo long" in (out / "left-out.tsv").read_text()


def test_a_megabyte_in_a_line_is_translated_or_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"one\n" + b"two " * (2**20 // 400) + b"\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "crosshead", "translate", BUNDLE, path, "--beam", "1"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count("\n") == 2
    assert "warning: line 2" in done.stderr


@pytest.mark.parametrize("verb", ["score", "evaluate"])
def test_a_megabyte_in_a_line_is_not_scored(verb: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "source").write_text("One.\n" + "two " * 2**18 + "\n")
    (tmp_path / "target").write_text("Eins.\nZwei.\n")
    flag = "--target" if verb == "score" else "--reference"
    metrics = [] if verb == "score" else ["--metrics", "bleu,perplexity"]
    files = ["--source", tmp_path / "source", flag, tmp_path / "target"]
    said = refused(verb, BUNDLE, *files, *metrics)
    assert "pair 2: its source has" in said
    assert "split both sides" in said


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
    assert "stands beside a run" in said
    assert (tmp_path / "run" / "thesis").read_text() == "x"


def test_resuming_what_cannot_be_resumed(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    out = ["--out", tmp_path / "run"]
    assert "no run to resume" in refused("train", "--resume", *out)
    assert "--force" in refused("train", "--resume", *out, "--force")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("[train]\nmax_updates = 1\n")
    assert "no run with a checkpoint to resume" in refused("train", "--resume", *out, *corpus)


def damage_nothing_there(bundle: Path) -> None:
    shutil.rmtree(bundle)


def damage_other_directory(bundle: Path) -> None:
    for file in bundle.iterdir():
        file.unlink()
    (bundle / "notes").write_text("x")


def damage_missing_weights(bundle: Path) -> None:
    (bundle / "model.safetensors").unlink()


def damage_missing_tokenizer(bundle: Path) -> None:
    for file in bundle.glob("tokenizer.*"):
        file.unlink()


def damage_truncated(bundle: Path) -> None:
    path = bundle / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def damage_not_json(bundle: Path) -> None:
    (bundle / "config.json").write_text("{")


def damage_newer_format(bundle: Path) -> None:
    path = bundle / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_nothing_there, "no such directory"),
        (damage_other_directory, "not a bundle"),
        (damage_missing_weights, "model.safetensors"),
        (damage_missing_tokenizer, "tokenizer"),
        (damage_truncated, "model.safetensors: truncated or damaged"),
        (damage_not_json, "config.json: not valid JSON"),
        (damage_newer_format, "upgrade crosshead"),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "info"])
def test_bundles_that_are_none(
    verb: str, damage: Callable[[Path], None], words: str, tmp_path: Path, refused: Refused
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(BUNDLE, bundle)
    damage(bundle)
    said = refused(verb, bundle)
    assert words in said
    assert str(bundle) in said


def test_other_verbs_refuse_what_does_not_fit(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    other = tmp_path / "other"
    shutil.copytree(BUNDLE, other)
    sides = ["--source", tmp_path / "two", "--reference", tmp_path / "one"]
    assert "has 2 lines but" in refused("evaluate", BUNDLE, *sides)
    assert "has 2 lines but" in refused("compare", BUNDLE, other, *sides)
    sides = ["--source", tmp_path / "two", "--reference", tmp_path / "two"]
    assert "unknown metric 'blue'" in refused("evaluate", BUNDLE, *sides, "--metrics", "blue")
    assert "unknown metric" in refused("compare", BUNDLE, other, *sides, "--metrics", "perplexity")
    assert "unknown tokenisation" in refused("evaluate", BUNDLE, *sides, "--tokenize", "13b")
    said = refused("evaluate", BUNDLE, *sides, "--beam", "0")
    assert "--beam: expected more than 0, found 0" in said
    said = refused("compare", BUNDLE, other, *sides, "--length-penalty", "-1")
    assert "--length-penalty: expected 0 or more, found -1" in said
    said = refused("translate", BUNDLE, tmp_path / "two", "--precision", "float8")
    assert "no precision 'float8' here" in said
    assert "two systems" in refused("compare", BUNDLE, *sides)
    assert "is given twice" in refused("compare", BUNDLE, BUNDLE, *sides)
    assert "two bundles" in refused("average", BUNDLE, "--out", tmp_path / "mean")
    said = refused("average", BUNDLE, BUNDLE, "--out", tmp_path)
    assert "is there already" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--beam", "0"], "--beam: expected more than 0"),
        (["--length-penalty", "-1"], "--length-penalty: expected 0 or more"),
        (["--length-penalty", "nan"], "--length-penalty: expected a finite number"),
        (["--n-best", "9"], "--n-best 9 needs a beam of as many, found 4: give --beam 9"),
        (["--top-k", "5"], "--top-k acts on samples only: give --sample"),
        (["--sample", "--top-p", "2"], "--top-p: expected 1 or less"),
        (["--sample", "--beam", "4"], "sampling keeps no beam"),
        (["--device", "gpu"], "'gpu'"),
        (["--threads", "-1"], "or 0 for all cores, found -1"),
        (["--device", "meta"], "no device 'meta' here"),
    ],
)
def test_wrong_searches(flags: list[str], words: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    assert words in refused("translate", BUNDLE, tmp_path / "in", *flags)


def test_what_was_translated_before_an_error_stays_in_a_pipe_and_not_in_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_bytes(b"one\n\ntwo\xff\nthree\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 2
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    assert f"{path}:3:4: not UTF-8 (byte 0xFF)" in captured.err
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1", "--output", str(out)]) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in"]


def test_an_output_that_cannot_be_written(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    place = tmp_path / "absent" / "out"
    said = refused("translate", BUNDLE, tmp_path / "in", "--output", place)
    assert f"{place}: cannot be written: No such file or directory; make the directory " in said
    said = refused("translate", BUNDLE, tmp_path / "in", "--output", tmp_path)
    assert f"{tmp_path}: cannot be written: Is a directory; name a file in it" in said


def test_the_input_is_not_written_over(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for output in ("in", "link"):
        said = refused("translate", BUNDLE, tmp_path / "in", "--output", tmp_path / output)
        assert "name another --output" in said
    assert (tmp_path / "in").read_text() == "one\n"


def test_a_megabyte_without_a_space_is_refused_by_its_number(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "in").write_text("one\n" + "x" * 10**6 + "\n")
    said = refused("translate", BUNDLE, tmp_path / "in", "--output", tmp_path / "out")
    assert "line 2: 1,000,000 characters without a space" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_a_pipe_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "crosshead", "translate", BUNDLE, tmp_path / "in"],
            env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "crosshead: error: standard output: cannot be written: No space left on device; "
        "free some space where it goes, or send it elsewhere\n",
    )
