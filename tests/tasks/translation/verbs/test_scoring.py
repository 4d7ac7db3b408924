import json
import math
import shutil
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.files import pack
from crosshead.cli import run
from tests.cli.tools import BUNDLE, Refused, output_of


def test_evaluation_and_comparison(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, reference = tmp_path / "source", tmp_path / "reference"
    lines = ["one two", "three", "two one three one"]
    source.write_text("\n".join(lines))
    reference.write_text("\n".join(crosshead.load(BUNDLE)(lines)))
    files = ["--source", source, "--reference", reference]
    metrics = ["--metrics", "bleu,chrf,ter,perplexity", "--jsonl"]
    rows = [
        json.loads(line)
        for line in output_of(["evaluate", BUNDLE, *files, *metrics], capfd).splitlines()
    ]
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2", "TER", "perplexity"]
    assert [round(row["value"]) for row in rows[:3]] == [100, 100, 0]
    assert rows[3]["value"] >= 1
    assert "tok:13a" in output_of(["evaluate", BUNDLE, *files], capfd)
    assert "tok:none" in output_of(["evaluate", BUNDLE, *files, "--tokenize", "none"], capfd)
    shutil.copytree(BUNDLE, tmp_path / "copy")
    both = output_of(["compare", BUNDLE, tmp_path / "copy", *files, "--metrics", "chrf"], capfd)
    assert both.count("chrF2  ") == 2


def test_a_table_gives_the_scores_of_two_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    sides = {"source": ["one two", "three"], "reference": ["eins zwei", "vier"]}
    for name, lines in sides.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    rows = list(zip(*sides.values(), strict=True))
    sheet, table = tmp_path / "sheet.csv", tmp_path / "table.tsv"
    sheet.write_text("Nr;en;de\n" + "".join(f"7;{one};{two}\n" for one, two in rows))
    table.write_text("".join(f"{one}\t{two}\n" for one, two in rows))
    files = [f"--{name}={tmp_path / name}" for name in sides]
    expected = output_of(["evaluate", BUNDLE, *files], capfd)
    assert output_of(["evaluate", BUNDLE, "--pairs", table], capfd) == expected
    other = pack(BUNDLE, tmp_path / "other.zip")
    command = ["evaluate", BUNDLE, other, "--pairs", sheet, "--fields", "en,de"]
    assert output_of(command, capfd) == output_of(["evaluate", BUNDLE, other, *files], capfd)
    said = refused("evaluate", BUNDLE, "--pairs", sheet, "--fields", "de,en")
    assert f"{sheet}: the source field 'de' is named as text in de, but this model trans" in said
    objects = tmp_path / "lines.jsonl"
    objects.write_text('{"en": "one", "de": "eins"}\n')
    said = refused("evaluate", BUNDLE, "--pairs", objects)
    assert "--pairs: " in said and "is JSON Lines; name the fields of source and target" in said


def test_two_bundles_are_compared_on_a_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    rows = [("one two", "eins zwei"), ("three", "vier")]
    for name, lines in zip(("source", "reference"), zip(*rows, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    table = tmp_path / "table.csv"
    table.write_text("Nr,English,German\n" + "".join(f"7,{one},{two}\n" for one, two in rows))
    compare = ["compare", BUNDLE, pack(BUNDLE, tmp_path / "other.zip")]
    files = [f"--{name}={tmp_path / name}" for name in ("source", "reference")]
    expected = output_of([*compare, *files], capfd)
    pairs = ["--pairs", table, "--fields"]
    assert output_of([*compare, *pairs, "English,German"], capfd) == expected
    said = refused(*compare, *pairs, "German,English")
    assert f"{table}: the source field 'German' is named as text in de, but {BUNDLE} " in said
    for typed, words in (
        ([], "give --source and --reference, or --pairs"),
        (files[1:], "--reference alone: give --source and --reference"),
        (["--pairs", table, files[0]], "--source is not for pairs: leave it out, or leave out"),
        (["--pairs", table, files[1]], "--reference is not for pairs: leave it out, or leave out"),
        ([*files, "--fields", "1,2"], "--fields names the fields of --pairs; leave it out"),
        (["--pairs", table, "--fields", "1"], "--fields needs two fields"),
    ):
        assert refused(*compare, *typed).startswith(f"crosshead: error: {words}")


def test_sources_in_the_target_language_are_refused(tmp_path: Path, refused: Refused) -> None:
    source, reference = tmp_path / "s.de", tmp_path / "s.en"
    source.write_text("Eins.\n")
    reference.write_text("One.\n")
    for command, model in (
        (["evaluate", BUNDLE], "this model"),
        (["compare", BUNDLE, pack(BUNDLE, tmp_path / "other.zip")], BUNDLE),
    ):
        said = refused(*command, "--source", source, "--reference", reference)
        words = f"{source}: is named as text in de, but {model} translates from en to de"
        assert said.startswith(f"crosshead: error: {words}")


def test_equal_sides_bring_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, other, table = tmp_path / "source", tmp_path / "other", tmp_path / "table.tsv"
    source.write_text("one two\nthree\n")
    table.write_text("one two\tone two\n")
    bundle = shutil.copytree(BUNDLE, tmp_path / "copy")
    for text, warnings in (("one two\nthree\n", 1), ("one two\nfour\n", 0)):
        other.write_text(text)
        for command in (["evaluate", BUNDLE], ["compare", BUNDLE, bundle]):
            sides = ["--source", source, "--reference", other]
            assert run([str(word) for word in [*command, *sides]]) == 0
            said = capfd.readouterr().err
            warning = f"warning: {source} and {other}: the sources and the references are the same"
            assert said.count(warning) == said.count("check --source and") == warnings
    assert run(["evaluate", str(BUNDLE), "--pairs", str(table)]) == 0
    said = capfd.readouterr().err
    assert f"warning: {table}: the sources" in said and "copies; check --fields" in said


def test_tokenised_references_bring_a_warning_unless_they_are_scored_as_such(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, reference, other = tmp_path / "source", tmp_path / "reference", tmp_path / "copy"
    source.write_text("one two\n" * 120)
    reference.write_text("eins zwei .\n" * 120)
    shutil.copytree(BUNDLE, other)
    sides = ["--source", source, "--reference", reference, "--beam", 1]
    for more, warnings in (
        ([], 1), (["--tokenize", "none"], 0), (["--metrics", "chrf"], 0),
    ):  # fmt: skip
        for command in (["evaluate", BUNDLE], ["compare", BUNDLE, other]):
            assert run([str(word) for word in [*command, *sides, *more]]) == 0
            said = capfd.readouterr().err
            assert said.count(f"warning: {reference}: tokenised text") == warnings
            assert "detokenize" not in said


def test_perplexity_is_not_taken_of_a_pair_that_is_too_long(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "source").write_text("One.\n" + "two " * 2**18 + "\n")
    (tmp_path / "target").write_text("Eins.\nZwei.\n")
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "target"]
    said = refused("evaluate", BUNDLE, *files, "--metrics", "bleu,perplexity")
    assert "pair 2: its source has" in said
    assert "split both sides" in said


def test_sets_and_options_that_do_not_fit_are_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    other = tmp_path / "other"
    shutil.copytree(BUNDLE, other)
    sides = ["--source", tmp_path / "two", "--reference", tmp_path / "one"]
    assert "has 2 lines but" in refused("evaluate", BUNDLE, *sides)
    assert "has 2 lines but" in refused("compare", BUNDLE, other, *sides)
    (tmp_path / "one").write_text("a\nc\n")
    assert "unknown metric 'blue'" in refused("evaluate", BUNDLE, *sides, "--metrics", "blue")
    assert "unknown metric" in refused("compare", BUNDLE, other, *sides, "--metrics", "perplexity")
    assert "unknown tokenisation" in refused("evaluate", BUNDLE, *sides, "--tokenize", "13b")
    said = refused("evaluate", BUNDLE, *sides, "--beam", "0")
    assert "--beam: expected more than 0, found 0" in said
    said = refused("compare", BUNDLE, other, *sides, "--length-penalty", "-1")
    assert "--length-penalty: expected 0 or more, found -1" in said
    assert "two systems" in refused("compare", BUNDLE, *sides)
    assert "at least two systems to compare, found 1" in refused("compare", BUNDLE, BUNDLE, *sides)


def test_given_translations_are_scored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one\ntwo\n")
    target.write_text("eins\nzwei\n")
    files = ["--source", source, "--target", target]
    expected = crosshead.load(BUNDLE).score(["one", "two"], ["eins", "zwei"])
    values = [float(line) for line in output_of(["score", BUNDLE, *files], capfd).splitlines()]
    assert values == pytest.approx([each.log_prob for each in expected], abs=1e-4)
    rows = output_of(["score", BUNDLE, *files, "--jsonl"], capfd).splitlines()
    assert [json.loads(row)["pieces"] for row in rows] == [each.pieces for each in expected]


def test_a_pair_that_is_too_long_has_a_line_without_a_score(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one\n" + "x" * 9000 + "\ntwo\n")
    target.write_text("eins\nzwei\nzwei\n")
    command = ["score", str(BUNDLE), "--source", str(source), "--target", str(target)]
    assert run(command) == 0
    captured = capfd.readouterr()
    numbers = [float(line) for line in captured.out.splitlines()]
    assert [math.isnan(number) for number in numbers] == [False, True, False]
    assert captured.err.count("\n") == 1
    assert "warning: pair 2: its source has 9,00" in captured.err
    rows = [json.loads(row) for row in output_of([*command, "--jsonl"], capfd).splitlines()]
    assert [row["log_prob"] is None for row in rows] == [False, True, False]
    assert rows[0]["log_prob"] == pytest.approx(numbers[0], abs=1e-4)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "give --source and --reference, or --pairs, or the data of another kind: --images, "),
        ("--source a", "--source alone: give --source and --reference"),
        ("--captions a", "--captions is not for translations"),
        ("--pairs a --source b", "--source is not for pairs: leave it out, or leave out --pairs"),
        ("--source a --reference b --fields 1,2", "--fields names the fields of --pairs"),
        ("--captions a --images b --stride 2", "--stride is not for --images with --captions"),
        ("--images a --beam 2", "--beam is not for --images"),
        ("--images a --images b", "give one folder or archive"),
        ("--series a --text b", "--text is not for --series"),
        ("--text a --original", "--original is not for --text"),
        ("--text a --reference b", "--reference is not for --text"),
        ("--source a --reference b --memory 2", "--memory is not for translations"),
    ],
)
def test_one_kind_of_data_is_evaluated_at_a_time(typed: str, words: str, refused: Refused) -> None:
    assert words in refused("evaluate", BUNDLE, *typed.split())


def test_an_ensemble_is_evaluated_and_scores(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    other = pack(BUNDLE, tmp_path / "other.zip")
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("One two.\nSeven.\n")
    target.write_text("Eins zwei.\nAcht.\n")
    for verb, option in (("evaluate", "--reference"), ("score", "--target")):
        rest = ["--source", source, option, target, "--jsonl"]
        alone, both = (
            [json.loads(line) for line in output_of([verb, *bundles, *rest], capfd).splitlines()]
            for bundles in ([BUNDLE], [BUNDLE, other])
        )
        for each, together in zip(alone, both, strict=True):
            numbers = {key for key, value in each.items() if isinstance(value, float)}
            assert numbers
            for key in numbers:
                assert together[key] == pytest.approx(each[key], abs=1e-4)
    assert "--text takes one bundle, found 2" in refused(
        "evaluate", BUNDLE, other, "--text", source
    )
