import dataclasses
import hashlib
import json
import os
from pathlib import Path

import pytest

from crosshead.cli import run
from crosshead.cli.evaluation import metric_names, on_card, say_if_seen, scores_jsonl, scores_table
from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.sacrebleu_metrics import ComparedScore
from tests.cli.tools import TINY


def test_metrics_are_named_by_commas() -> None:
    assert metric_names("bleu, perplexity", "none", ["perplexity"]) == ["bleu", "perplexity"]
    with pytest.raises(ConfigError, match="did you mean 'chrf'"):
        metric_names("chrff", None)


def test_scores_are_shown_with_interval_and_signature() -> None:
    scores = [
        CorpusScore("BLEU", 30.123, 29.0, 31.0, "sig"),
        CorpusScore("perplexity", 4.0, 3.5, 4.5, "per:piece"),
    ]
    rows = [json.loads(line) for line in scores_jsonl(scores).splitlines()]
    assert rows == [dataclasses.asdict(score) for score in scores]
    assert scores_table(scores).splitlines()[1:] == [
        "BLEU        30.12  29.00 to 31.00  sig",
        "perplexity  4.00   3.50 to 4.50    per:piece",
    ]
    compared = [ComparedScore("a", "BLEU", 1.0, 0.5, 1.5, None, "sig")]
    assert "p_value" not in json.loads(scores_jsonl(compared))


def test_a_file_on_the_card_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("seen.jsonl", "new.jsonl"):
        (tmp_path / name).write_text(name)
    seen = hashlib.sha256(b"seen.jsonl").hexdigest()
    (tmp_path / "README.md").write_text(f"| file | SHA-256 |\n| `a.jsonl` | `{seen}` |\n")
    assert on_card(tmp_path, seen) and not on_card(tmp_path, "0" * 64)
    files = [tmp_path / name for name in ("seen.jsonl", "new.jsonl")]
    say_if_seen([tmp_path / "without", tmp_path], files)
    [line] = capsys.readouterr().err.splitlines()
    assert "seen.jsonl: the training of this model used these data" in line
    assert "new.jsonl" not in line


def test_a_pipe_is_not_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it, so that reading would wait for ever
    say_if_seen([tmp_path], [tmp_path / "pipe"])
    assert capsys.readouterr().err == ""


def test_the_training_files_of_a_translation_model_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"a {number} b", f"b {number} a") for number in range(30)]
    table, new = tmp_path / "train.csv", tmp_path / "new.csv"
    for file, some in ((table, rows), (new, rows[::-1])):
        file.write_text("English,German\n" + "".join(f"{one},{two}\n" for one, two in some))
    for name, lines in zip(("a.en", "a.de"), zip(*rows[:9], strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    source, target, out = tmp_path / "a.en", tmp_path / "a.de", tmp_path / "run"
    pairs = ["--pairs", table, "--fields", "English,German"]
    train = ["train", *pairs, "--source", source, "--target", target, "--out", out, *TINY]
    assert run([*map(str, [*train, "--max-updates", 1])]) == 0
    capfd.readouterr()
    for files, seen in (
        (pairs, f"crosshead: {table}: the training of this model used"),
        (["--source", source, "--reference", target], f": {source}, {target}: the training of"),
        (["--pairs", new, "--fields", "English,German"], None),
    ):
        assert run([*map(str, ["evaluate", out, *files, "--beam", 1])]) == 0
        said = capfd.readouterr().err
        assert seen in said if seen else "the training of this model" not in said


def test_a_bundle_without_a_card_says_nothing(tmp_path: Path) -> None:
    assert not on_card(tmp_path, "0" * 64)
