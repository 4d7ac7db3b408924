"""The command line on monolingual text, as a new user would run it."""

import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.cli import run
from crosshead.tasks.language.text_generator import LENGTH, ScoredText, TextGenerator
from crosshead.tasks.language.verbs import generate, text_evaluation
from crosshead.tasks.likelihood import text_scores
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from tests.cli.tools import BUNDLE, Refused, output_of
from tests.training.runs import digest, logged

TEXT = "".join(f"{a}{b} and {b}{a}\n" for a in "abcdef" for b in "uvwxyz") * 4
SMALL = [
    *("--set", "tokenizer.kind=characters", "--set", "layers=1", "--set", "d_model=16"),
    *("--set", "d_ff=16", "--set", "heads=2", "--set", "context=16"),
    *("--set", "train.batch_tokens=128"),
    *("--set", "precision=float32", "--set", "valid_every=10", "--set", "log_every=5"),
    *("--set", "warmup=5", "--threads", "1", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture(scope="module")
def trained(book: Path) -> Path:
    out = book.parent / "run"
    arguments = ["train", "--text", str(book), "--out", str(out), "--max-updates", "20", *SMALL]
    assert run(arguments) == 0
    return out


def test_a_bundle_and_its_log(trained: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    assert config["task"] == "language"
    assert config["model"]["architecture"] == "language"
    assert {score["metric"] for score in config["scores"]} == {"perplexity", "bits per character"}
    valid = [line for line in logged(trained) if line["kind"] == "valid"]
    assert [line["update"] for line in valid] == [10, 20]
    assert valid[1]["loss"] < valid[0]["loss"]
    assert valid[0]["bits_per_character"] == pytest.approx(valid[0]["nll"] / 0.6931, rel=1e-3)
    card = (trained / "README.md").read_text()
    assert "text-generation" in card and "crosshead generate DIR" in card
    assert (trained / "training.png").exists()


def test_generate_goes_on_with_a_prompt(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", trained, "--prompt", "au and\\nbv", "--length", 30]
    first = output_of(arguments, capfd)
    assert first.startswith("au and\nbv") and len(first) == len("au and\nbv") + 30 + 1
    assert output_of(arguments, capfd) == first
    assert output_of([*arguments, "--seed", 2], capfd) != first
    two = output_of([*arguments, "--samples", 2], capfd)
    assert two.startswith(first) and two.count("au and\nbv") >= 2
    greedy = output_of([*arguments, "--greedy"], capfd)
    assert output_of([*arguments, "--top-k", 1], capfd) == greedy
    assert output_of([*arguments, "--beam", 1], capfd) == greedy
    beam = output_of([*arguments, "--beam", 3], capfd)
    assert beam.startswith("au and\nbv") and len(beam) == len(first)
    stopped = output_of([*arguments, "--stop", "\\n"], capfd)
    assert stopped == first[: first.index("\n", len("au and\nbv"))] + "\n"


def test_generate_writes_as_much_as_a_writer_does_by_default() -> None:
    assert inspect.signature(generate).parameters["length"].default == LENGTH


def test_generate_searches_as_the_bundle_says(
    trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(trained, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    del config["config_sha256"]  # as the message asks of whoever changes the file
    arguments: list[object] = ["--prompt", "au and", "--length", 30]
    sampled = output_of(["generate", trained, *arguments, "--seed", 7], capfd)
    for beam in (1, 3):
        searched = output_of(["generate", trained, *arguments, "--beam", beam], capfd)
        config["decode"] |= {"sample": False, "beam": beam}
        (copy / "config.json").write_text(json.dumps(config))
        assert output_of(["generate", copy, *arguments], capfd) == searched
        assert output_of(["generate", copy, *arguments, "--seed", 7], capfd) == sampled


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--greedy", "--seed", 3], "--seed applies to sampling only; leave out it or --greedy"),
        (["--beam", 2, "--top-k", 3], "--top-k applies to sampling only; leave out it or --beam"),
        (["--greedy", "--beam", 2], "leave out one of them"),
        (["--beam", 0], "--beam"),
        (["--temperature", 0], "--temperature"),
        (["--length", 0], "'--length'"),
        (["--greedy", "--samples", 3], "--samples 3 needs sampling"),
        (["--beam", 2, "--samples", 2], "--samples 2 needs sampling"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    trained: Path, flags: list[object], said: str, refused: Refused
) -> None:
    assert said in refused("generate", trained, *flags)


@pytest.mark.parametrize(
    "flag",
    [
        ["--source", "F"], ["--reference", "F"], ["--metrics", "bleu"], ["--tokenize", "zh"],
        ["--beam", 4], ["--length-penalty", 0.5],
    ],
)  # fmt: skip
def test_evaluate_refuses_what_does_not_act_on_a_text(
    trained: Path, book: Path, flag: list[object], refused: Refused
) -> None:
    said = refused("evaluate", trained, "--text", book, *flag)
    assert f"{flag[0]} is not for --text" in said


@pytest.mark.parametrize("flag", ["--stride", "--memory"])
def test_evaluate_refuses_what_acts_on_a_text_only(flag: str, book: Path, refused: Refused) -> None:
    sides = ["--source", book, "--reference", book]
    for given in (sides, []):
        said = refused("evaluate", BUNDLE, *given, flag, 4)
        assert f"{flag} is not for translations" in said


def test_evaluate_a_text(trained: Path, book: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def scores(*more: object) -> dict[str, float]:
        out = output_of(["evaluate", trained, "--text", book, "--jsonl", *more], capfd)
        return {row["metric"]: row["value"] for row in map(json.loads, out.splitlines())}

    far, near = scores(), scores("--stride", 4)
    assert far.keys() == {"perplexity", "bits per character"}
    assert 1 < near["perplexity"] < 30
    assert near["perplexity"] != far["perplexity"]


def test_what_info_says(trained: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = output_of(["info", trained], capfd)
    assert "language, 1 layers" in said and "16 tokens" in said and "for both sides" not in said


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_weights(
    book: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ["--set", "patience=0", "--set", "schedule=inverse-sqrt", *SMALL]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    output_of(["train", "--text", book, "--out", whole, "--max-updates", 20, *common], capfd)
    output_of(["train", "--text", book, "--out", parts, "--max-updates", 13, *common], capfd)
    output_of(["train", "--resume", "--out", parts, "--max-updates", 20], capfd)
    weights = "checkpoints/update-00000020/weights.safetensors"
    assert digest(whole / weights) == digest(parts / weights)


def test_fine_tuning_keeps_model_and_tokenizer(
    trained: Path, book: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training = ["--set", "context=16", "--set", "train.batch_tokens=128", "--threads", "1"]
    out = tmp_path / "tuned"
    output_of(
        ["train", "--text", book, "--from", trained, "--out", out, "--max-updates", 3, *training],
        capfd,
    )
    assert digest(out / "tokenizer.json") == digest(trained / "tokenizer.json")


def test_verbs_of_translation_refuse_it(trained: Path, book: Path, refused: Refused) -> None:
    assert "generate with: crosshead generate" in refused("translate", trained, book)
    sides: list[object] = ["--source", book, "--reference", book]
    assert "generate with: crosshead generate" in refused("evaluate", trained, *sides)
    for verb in (["compare", trained, book.parent], ["score", trained, "--target", book]):
        given = sides if verb[0] == "compare" else sides[:2]
        assert "generate with: crosshead generate" in refused(*verb, *given)
    assert "a model that translates" in refused("generate", BUNDLE)
    assert "a model that translates" in refused("evaluate", BUNDLE, "--text", book)
    assert "--text" in refused("evaluate", trained)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--set", "metric=bleu"],
            "train.metric: expected 'loss' or 'bits_per_character', found 'bleu'",
        ),
        (["--source", "a.en", "--target", "a.de"], "--source is for translation"),
        (["--set", "context=5000"], "data.context 5000 does not fit into train.batch_tokens"),
        (["--set", "positions=learned", "--set", "model.max_length=8"], "more than the 8 learned"),
        (["--model", "transformer"], "--text is for models of monolingual text"),
        (["--model", "languge"], "did you mean 'language'?"),
        (["--set", "encoder_layers=2"], "unknown key 'model.encoder_layers'"),
        (["--set", "tokenizer.joint=false"], "monolingual text has one side"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    arguments: list[str], said: str, tmp_path: Path, refused: Refused
) -> None:
    found = refused("train", "--text", tmp_path / "none.txt", "--out", tmp_path / "o", *arguments)
    assert said in found
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_scoring_of_a_text_is_watched_at_a_terminal_only(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("a\nbc")
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
    scored, shown = ScoredText([(1.0, 4, 4)], 0, "context:8|stride:8", tokenizer), []

    class Half(TextGenerator):
        def __init__(self) -> None: ...

        def score(  # type: ignore[override]
            self, text: str, stride: int, memory: None, progress: Callable[[float], None]
        ) -> ScoredText:
            assert (text, stride, memory) == ("a\nbc\n", 3, None)
            progress(0.4)
            return scored

    class Recorded:
        def due(self) -> bool:
            return True

        def advance(self, fraction: float, line: str) -> None:
            shown.append((fraction, line.partition(",")[0]))

        def close(self) -> None: ...

    monkeypatch.setattr("crosshead.tasks.loading.load", lambda *given: Half())
    monkeypatch.setattr("crosshead.system.progress.choose_display", lambda lost: Recorded())
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    scores = text_evaluation(tmp_path, tmp_path / "text", 3, None, "cpu", None)
    assert scores == text_scores(scored)
    seen = [(0, "0 of 5 characters"), (0.4, "2 of 5 characters"), (1, "5 of 5 characters")]
    assert shown == (seen if terminal else [])
