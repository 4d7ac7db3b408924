"""The command line on text with tokens hidden, as a new user would run it."""

import json
import random
from pathlib import Path

import pytest

from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, output_of
from tests.tasks.language.test_verbs import SMALL
from tests.training.runs import digest, logged

DRAWN = random.Random(0).choices("abcdefghijklmnopqr", k=1500)
TEXT = "".join(f"{word} {word}\n" for word in DRAWN)
WORDS = [*SMALL, "--set", "tokenizer.kind=words"]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("masked") / "book.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture(scope="module")
def trained(book: Path) -> Path:
    out = book.parent / "run"
    arguments = ["train", "--text", str(book), "--model", "encoder", "--out", str(out)]
    more = ["d_model=32", "d_ff=64", "positions=shaw", "train.batch_tokens=512"]
    more += ["learning_rate=0.01", "valid_every=100"]
    settings = [part for each in more for part in ("--set", each)]
    # Half as many are enough for some seeds.
    assert run([*arguments, "--max-updates", "300", *WORDS, *settings]) == 0
    return out


def test_a_bundle_and_its_log(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    assert config["task"] == "masked" and config["model"]["architecture"] == "encoder"
    assert [s["metric"] for s in config["scores"]] == ["masked perplexity", "masked accuracy, %"]
    losses = [line["loss"] for line in logged(trained) if line["kind"] == "valid"]
    assert losses[-1] < losses[0]
    card = (trained / "README.md").read_text()
    assert 'pipeline_tag: "fill-mask"' in card and "crosshead fill DIR" in card
    assert (trained / "training.png").exists()


def test_it_learns_what_both_sides_say(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A line is a word, twice; what stands alone in a text might also be the end of a line."""
    for text in ("c c\\n[MASK] a\\nd d", "c c\\nb [MASK]\\nd d", "a a\\n[MASK] d\\ng g"):
        found = output_of(["fill", trained, text], capfd).splitlines()
        assert all(line == f"{line[0]} {line[0]}" for line in found), found


def test_candidates_and_json(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "c c\\n[MASK] a\\nb b"
    shown = output_of(["fill", trained, text, "--top", 3], capfd)
    assert shown.startswith("c c\na a\nb b\n\n[MASK] 1  probability\na")
    assert len(shown.splitlines()) == 8
    found = json.loads(output_of(["fill", trained, text, "--jsonl"], capfd))
    assert found["text"] == "c c\na a\nb b"
    [[candidate]] = found["candidates"]
    assert candidate["piece"] == "a" and 0.5 < candidate["probability"] <= 1


def test_what_it_does_not_know_is_given_back(
    trained: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "zebras [MASK]  snow\\nc c\\n[MASK] a\\nb b"
    found = output_of(["fill", trained, text], capfd)
    assert found.startswith("zebras ") and found.endswith("  snow\nc c\na a\nb b\n")


def test_the_empty_word_can_be_read(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = output_of(["fill", trained, "[MASK] a", "--top", 1000], capfd).splitlines()[3:]
    assert len(rows) == 18 + 2  # the words, the empty one and the end of a line
    assert all(len(row.rsplit(maxsplit=1)) == 2 for row in rows)
    assert any(row.startswith("(empty word)") for row in rows)


def test_evaluate_a_text(trained: Path, book: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = output_of(["evaluate", trained, "--text", book, "--jsonl"], capfd)
    perplexity, accuracy = map(json.loads, out.splitlines())
    assert perplexity["metric"] == "masked perplexity" and 1 < perplexity["value"] < 4
    assert (
        accuracy["metric"] == "masked accuracy, %" and 70 < accuracy["value"] < 100
    )  # both of some lines are hidden
    assert "hidden:0.15" in accuracy["signature"]


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_weights(
    book: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is hidden in the updates to come is what would have been."""
    common = ["--model", "encoder", "--set", "schedule=inverse-sqrt", *WORDS]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    output_of(["train", "--text", book, "--out", whole, "--max-updates", 20, *common], capfd)
    output_of(["train", "--text", book, "--out", parts, "--max-updates", 13, *common], capfd)
    output_of(["train", "--resume", "--out", parts, "--max-updates", 20], capfd)
    weights = "checkpoints/update-00000020/weights.safetensors"
    assert digest(whole / weights) == digest(parts / weights)


def test_what_it_does_not_do(trained: Path, book: Path, refused: Refused) -> None:
    for arguments in (
        ["generate", trained],
        ["translate", trained, book],
    ):
        assert "fill with: crosshead fill" in refused(*arguments)
    sides = ["--source", book, "--reference", book]
    assert "fill with: crosshead fill" in refused("evaluate", trained, *sides)
    text = ["evaluate", trained, "--text", book]
    assert "--stride and --memory need" in refused(*text, "--stride", 4)
    assert "--stride and --memory need" in refused(*text, "--memory", 4)
    assert "this text has no [MASK]" in refused("fill", trained, "a a")
    assert "'--top'" in refused("fill", trained, "[MASK]", "--top", 0)
    assert "translate with: crosshead translate" in refused("fill", BUNDLE, "[MASK]")
