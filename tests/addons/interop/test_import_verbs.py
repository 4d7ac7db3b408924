"""`crosshead import`, and what a user does next with the bundle."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.addons.interop.imports import marian_directories as marian
from tests.addons.interop.imports.gpt2_directories import write_gpt2
from tests.addons.vision.captions import captions
from tests.cli.tools import Refused, output_of
from tests.hub_server import Hub, contents


def directory(place: Path) -> Path:
    """A random Marian model of the pieces of captions."""
    source, target = (marian.learned(lines, 200) for lines in captions(300))
    ids = marian.marian_vocabulary(source, target)
    model = marian.half_trained(marian.marian_config(len(ids)), [], updates=0)
    return marian.write_directory(place, model, (source, target), [ids])


def test_a_model_is_imported_shown_used_and_fine_tuned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shared = directory(tmp_path / "shared")
    said = output_of(["import", shared, "--out", out], capfd)
    assert "shared (huggingface)" in said and "transformer, 2+3 layers" in said
    facts = output_of(["info", out], capfd)
    assert "`shared`, a model of kind huggingface" in facts
    assert "sentencepiece" in facts and "en to de" in facts

    for side, lines in zip(("en", "de"), captions(60), strict=True):
        (tmp_path / f"few.{side}").write_text("".join(f"{line}\n" for line in lines))
    tuned = tmp_path / "tuned"
    output_of(
        [
            "train", "--from", out, "--source", tmp_path / "few.en", "--target",
            tmp_path / "few.de", "--out", tuned, "--max-updates", "3", "--device", "cpu",
            "--threads", "1", "--set", "train.batch_tokens=1024",
        ],
        capfd,
    )  # fmt: skip
    for each in (out, tuned):
        translated = output_of(["translate", each, tmp_path / "few.en"], capfd)
        assert len(translated.splitlines()) == 60 and translated.strip()


@pytest.mark.slow
def test_a_gpt2_is_imported_continued_scored_tuned_and_exported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out, tuned, text = tmp_path / "out", tmp_path / "tuned", tmp_path / "text.txt"
    write_gpt2(tmp_path / "gpt2")
    text.write_text("a dog runs\n\n  over the green grass\n" * 20)
    said = output_of(["import", tmp_path / "gpt2", "--out", out], capfd)
    assert "gpt2 (huggingface)" in said and "language, 2 layers" in said
    assert "tokenizer-json, 303 pieces" in output_of(["info", out], capfd)
    prompt = ["--prompt", "a dog\nruns", "--length", "5"]
    assert output_of(["generate", out, *prompt], capfd).startswith("a dog\nruns")
    assert "perplexity" in output_of(["evaluate", out, "--text", text], capfd)
    output_of(["attention", out, "a dog runs", "--out", tmp_path / "maps.png"], capfd)
    assert (tmp_path / "maps.png").is_file()
    output_of(
        [
            "train", "--from", out, "--text", text, "--out", tuned, "--max-updates", "3",
            "--device", "cpu", "--threads", "1", "--set", "train.batch_tokens=256",
        ],
        capfd,
    )  # fmt: skip
    said = output_of(["export", tuned, "--to", "huggingface", "--out", tmp_path / "hf"], capfd)
    assert "identical continuations 100.0%" in said
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert settings["model_type"] == "gpt2" and settings["tie_word_embeddings"]


def test_the_card_shows_the_command_as_it_was_typed(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.repository("anna/opus", contents(directory(tmp_path / "shared")))
    out = tmp_path / "out"
    typed = ["import", "hf://anna/opus", "--out", str(out), "--kind", "huggingface"]
    monkeypatch.setattr(sys, "argv", ["crosshead", *typed])
    output_of(typed, capfd)
    card = (out / "README.md").read_text()
    assert "import hf://anna/opus --out out --kind huggingface\n" in card
    assert "No scores were measured." in card


def test_languages_that_the_user_states_are_in_the_report_the_card_and_info(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shared, out = directory(tmp_path / "shared"), tmp_path / "out"
    (shared / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    options = ["--source-language", "fr", "--target-language", "it"]
    said = output_of(["import", shared, "--out", out, *options], capfd)
    assert re.search(r"^languages +fr to it$", said, re.MULTILINE)
    assert re.search(r"^licence +cc-by-4\.0, by the card of the model$", said, re.MULTILINE)
    card = (out / "README.md").read_text()
    assert 'language: ["fr", "it"]' in card
    facts = output_of(["info", out], capfd)
    assert re.search(r"^licence +cc-by-4\.0$", facts, re.MULTILINE)
    assert "(scores are divided by length^1), early_stopping = false as in Hugging Face" in facts


def test_a_foreign_model_in_the_place_of_a_bundle_is_refused_with_the_command(
    tmp_path: Path, hub: Hub, refused: Refused, capfd: pytest.CaptureFixture[str]
) -> None:
    shared = directory(tmp_path / "shared")
    capfd.readouterr()  # transformers shows its progress
    hub.repository("anna/opus", contents(shared))
    (tmp_path / "in.txt").write_text("A dog.\n")
    for place in (str(shared), "hf://anna/opus"):
        for command in (
            ["info", place],
            ["translate", place, tmp_path / "in.txt"],
            ["pack", place],
        ):
            said = refused(*command)
            assert f"{place}: a Hugging Face model (marian), not a bundle of crosshead; " in said
            assert said.endswith(f"import it first: crosshead import {place} --out DIR")
    said = refused("train", "--from", shared, "--source", "a", "--target", "b", "--out", "x")
    assert "import it first" in said


def test_wrong_input_is_one_line(tmp_path: Path, refused: Refused) -> None:
    out = tmp_path / "out"
    assert "no such file" in refused("import", tmp_path / "lost", "--out", out)
    assert "no model of a known kind" in refused("import", tmp_path, "--out", out)
    assert "there is no kind of model" in refused("import", tmp_path, "--out", out, "--kind", "x")
    wrong = refused("import", tmp_path, "--out", out, "--source-language", "English")
    assert "--source-language: expected a language code such as en or pt-BR" in wrong
    assert not out.exists()
