import re
import shlex
from pathlib import Path

import pytest

from crosshead.bundle.files import pack
from crosshead.cli import run
from crosshead.training.directory import stored_recipe
from tests.cli.tools import BUNDLE, TINY, Refused, output_of

FAST = ["--max-updates", "1", *TINY, "--set", "decode.beam=1", "--set", "average=0",
        "--set", "max_extra=2"]  # fmt: skip

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{a} {b}.\n" for a in NUMBERS[:4] for b in NUMBERS[:5]))
    return path


def trained(printed: str, text: Path, out: Path) -> list[str]:
    """The command that a verb prints, with files in the places of its capital letters."""
    named = {"RUN": str(out)}
    words = shlex.split(printed)
    assert words.pop(0) == "crosshead"
    given = [
        named.get(word, str(text) if re.fullmatch("[A-Z_]+", word) else word) for word in words
    ]
    return [*given, *TINY, "--max-updates", "2"]


def test_the_printed_command_trains_a_student(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = pack(BUNDLE, tmp_path / "other.zip")
    printed = output_of(
        ["distill", BUNDLE, other, "--source", text, "--out", tmp_path / "set", "--beam", 2], capfd
    )
    assert printed.startswith(f"crosshead train --preset student --source {tmp_path / 'set'}")
    assert run(trained(printed, text, tmp_path / "run")) == 0
    said = capfd.readouterr().err
    assert "languages: en to de" in said and "20 pairs to train on" in said


def test_a_student_has_a_thin_decoder_and_the_search_of_ctranslate2(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target, out = (tmp_path / name for name in ("set/train.en", "set/train.de", "run"))
    output_of(["distill", BUNDLE, "--source", text, "--out", tmp_path / "set"], capfd)
    files = ["--source", source, "--target", target, "--out", out]
    few = ["--max-updates", 2, "--threads", 1, "--set", "tokenizer.kind=characters"]
    output_of(["train", "--preset", "student", *files, *few], capfd)
    model, decode = stored_recipe(out).model, stored_recipe(out).decode
    assert (model.encoder_layers, model.decoder_layers, model.norm) == (6, 1, "pre")
    assert (decode.beam, decode.stop, decode.length_offset) == (1, "count", 0.0)
    assert output_of(["translate", out, text], capfd).count("\n") == len(NUMBERS[:4]) * 5


@pytest.mark.slow
def test_the_printed_command_trains_on_tagged_back_translations(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["backtranslate", BUNDLE, text, "--out", tmp_path / "set", "--tag", "<B'T>"]
    assert run([*map(str, command), "--sample", "--seed", "3"]) == 0
    captured = capfd.readouterr()
    assert f"20 pairs in {tmp_path / 'set' / 'train.de'} and" in captured.err
    assert run(trained(captured.out, text, tmp_path / "run")) == 0
    assert "40 pairs to train on" in capfd.readouterr().err
    tokenizer = (tmp_path / "run" / "tokenizer.json").read_text()
    assert '"<B\'T>"' in tokenizer


def test_a_table_is_refused(tmp_path: Path, refused: Refused) -> None:
    table, out = tmp_path / "table.csv", ["--out", tmp_path / "set"]
    table.write_text("one two\tx\nthree\ty\n")
    for command in (
        ["distill", BUNDLE, "--source", table],
        ["backtranslate", BUNDLE, table],
    ):
        assert f"{table}: a table, expected text with" in refused(*command, *out)


def test_a_warning_counts_the_translations_that_may_be_bad(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "set"), "--beam", "1"]
    assert run(["distill", str(BUNDLE), "--source", str(text), *out]) == 0
    assert "warning: " not in capfd.readouterr().err
    text.write_text("Привет\none two.\n")
    out[1] += "-odd"
    assert run(["backtranslate", str(BUNDLE), str(text), *out]) == 0
    said = capfd.readouterr().err
    assert "warning: 1 of 2 translations may be bad (repetition 1); read some of them" in said


def test_a_stop_says_how_to_go_on(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crosshead.tasks.translation.translator.Translator.translate", stop)
    out = tmp_path / "set"
    assert run(["distill", str(BUNDLE), "--source", str(text), "--out", str(out)]) == 130
    said = capfd.readouterr().err
    assert (
        f"stopped; to continue, give the same command again: {out} keeps the finished blocks"
        in said
    )


def test_wrong_input_is_one_line(tmp_path: Path, text: Path, refused: Refused) -> None:
    out = ["--out", tmp_path / "set"]
    assert "no such directory" in refused("distill", tmp_path / "x", "--source", text, *out)
    assert "no such file" in refused("distill", BUNDLE, "--source", tmp_path / "x", *out)
    assert "--source" in refused("distill", BUNDLE, *out)
    assert "--out" in refused("backtranslate", BUNDLE, text)
    said = refused("backtranslate", BUNDLE, text, *out, "--top-k", 5)
    assert "--top-k applies to sampling only: add --sample" in said
    assert "--beam" in refused("backtranslate", BUNDLE, text, *out, "--beam", 0)
    said = refused("backtranslate", BUNDLE, text, *out, "--tag", "a b")
    assert "--tag: 'a b' is empty or contains white space" in said
    assert f"{text}: is a file" in refused("distill", BUNDLE, "--source", text, "--out", text)


@pytest.mark.slow
def test_one_model_translates_in_both_directions(
    tmp_path: Path, text: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    """Trained with one key; every verb that translates takes the language."""
    english, german, out = tmp_path / "a.en", tmp_path / "a.de", tmp_path / "run"
    english.write_text(text.read_text())
    german.write_text(text.read_text().upper())
    files = ["--source", english, "--target", german, "--set", "directions=both"]
    report = output_of(["train", *files, "--out", out, *TINY, "--max-updates", 2], capfd)
    assert report.endswith(f" translate {out} FILE --to de  # or en\n")
    for command in (
        ["translate", out, english],
        ["evaluate", out, "--source", english, "--reference", german],
        ["score", out, "--source", english, "--target", german],
        ["distill", out, "--source", english, "--out", tmp_path / "set"],
        ["backtranslate", out, english, "--out", tmp_path / "set"],
        ["attention", out, "one two.", "--out", tmp_path / "picture.png"],
    ):
        assert "this model translates to de and en: choose the language" in refused(*command)
        assert "does not translate to 'fr'; it translates to de and en" in refused(
            *command, "--to", "fr"
        )
    rows = [output_of(["translate", out, english, "--to", to, "--scores"], capfd)
            for to in ("de", "en")]  # fmt: skip
    assert rows[0] != rows[1]
    output_of(["distill", out, "--source", english, "--out", tmp_path / "set", "--to", "de"], capfd)
    said = refused("distill", out, "--source", english, "--out", tmp_path / "set", "--to", "en")
    assert "holds translations with other settings (target language)" in said
    said = refused("train", "--text", english, "--set", "directions=both", "--out", tmp_path / "x")
    assert "data.directions is for translation; leave it out" in said


def test_folds_are_trained_once_and_added_to_a_finished_run(
    tmp_path: Path, corpus: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run([*map(str, ["train", *corpus, "--out", out, *FAST, "--folds", 2])]) == 0
    report, said = capfd.readouterr()
    follow = "more models after this one, each with the same limits"
    assert f"crosshead: --folds 2 trains 2 {follow}\n" in said
    assert "Translate with: " in report
    assert "\nrun     pairs  BLEU  chrF2\nfold-1     15" in report
    assert "BLEU over 2 folds: " in report
    assert str(tmp_path / "run.2-folds" / "folds.tsv") in report
    assert run(["train", "--resume", "--out", str(out), "--folds", "2"]) == 0
    report, said = capfd.readouterr()
    assert said.count(": finished in ") == 2 and "BLEU over 2 folds: " in report
    assert follow not in said


def test_folds_of_a_finished_run_have_its_limits(tmp_path: Path, corpus: list[object]) -> None:
    out = tmp_path / "run"
    assert run([*map(str, ["train", *corpus, "--out", out, *FAST, "--max-updates", 2])]) == 0
    assert run(["train", "--resume", "--out", str(out), "--folds", "2", "--max-updates", "1"]) == 0
    for each in (out, *(tmp_path / "run.2-folds" / f"fold-{number}" for number in (1, 2))):
        assert stored_recipe(each).train.max_updates == 2


def test_a_curve_of_too_few_pairs_is_refused_before_training(
    tmp_path: Path, corpus: list[object], refused: Refused
) -> None:
    out = tmp_path / "run"
    languages = ["--source-language", "en", "--target-language", "de"]  # else a line says "unknown"
    said = refused("train", *corpus, *languages, "--out", out, *FAST, "--curve")
    assert "--curve: 27 training pairs are too few; at least 400 are needed" in said
    assert not out.exists()


def test_subsets_of_other_data_are_refused_before_training(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "text").write_text("a b\n" * 9)
    out = tmp_path / "run"
    said = refused("train", "--text", tmp_path / "text", "--out", out, "--curve")
    assert "--curve takes subsets of pairs of texts" in said and not out.exists()
    assert "greater than or equal to 2" in refused(
        "train", "--text", tmp_path / "text", "--out", out, "--folds", 1
    )
