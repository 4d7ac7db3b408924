import re
from pathlib import Path

import pytest

from crosshead.addons.checks.suspects import KINDS
from tests.addons.checks.made_up import pairs
from tests.cli.tools import Refused, output_of
from tests.conftest import ROOT

ROWS = 600


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    """The options of a text with a shifted stretch and a duplicate."""
    source, target = pairs(ROWS)
    target[300:360] = target[301:360] + target[300:301]
    sides = {"en": [*source, source[0]], "de": [*target, target[0]]}
    for name, lines in sides.items():
        (tmp_path / f"train.{name}").write_text("".join(f"{line}\n" for line in lines))
    return ["--source", tmp_path / "train.en", "--target", tmp_path / "train.de"]


def test_a_table_has_counts_and_an_example_of_each_kind(
    files: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    text = output_of(["data", "check", *files], capfd)
    first, _, head, *lines = text.splitlines()
    assert " of 601 pairs are suspect (" in first
    assert head.split() == ["kind", "pairs", "share", "meaning"]
    counts = {line.split()[0]: line.split()[1] for line in lines[:2]}
    assert counts.keys() == {"misaligned", "duplicate"} and counts["duplicate"] == "1"
    assert f"duplicate: {files[1]}:601: repeats {files[1]}:1" in lines
    assert lines[-1].startswith("Give --out DIR to list all suspect pairs;") and lines[-2] == ""
    assert (
        "Shifted stretches (lines are missing or added where a stretch begins; repair the files "
        "there):" in lines
    )
    assert lines[-3].endswith("the target translates the source 1 line below")
    begin, end = lines[-3].removeprefix(f"{files[1]}:").split(": ")[0].split(" to ")
    assert int(begin) in range(298, 305) and int(end) in range(357, 363)


def test_the_tutorial_shows_the_output_for_its_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    arguments = ["--pairs", "sheet.csv", "--fields", "English,German", "--out", "checked"]
    text = output_of(["data", "check", *arguments], capfd)
    for shown in re.findall(r"```text\n(.*?)```", page, re.DOTALL)[:2]:
        assert shown in f"{text}\n"
    output_of(["data", "check", *arguments, "--apply", "--skip", "identical,near-duplicate"], capfd)
    left = len((tmp_path / "checked" / "sheet.tsv").read_text(encoding="utf-8").splitlines()) - 1
    assert f"This leaves {left:,} rows" in page


def test_a_cleaned_table_has_two_columns_as_the_pages_say(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("Nr;English;German;Status\n1;a b;c d;done\n2;e f;;open\n")
    names = ["--pairs", tmp_path / "x.csv", "--fields", "English,German"]
    output_of(["data", "check", *names, "--out", tmp_path / "out", "--apply"], capfd)
    assert (tmp_path / "out" / "x.tsv").read_text() == "English\tGerman\na b\tc d\n"
    described = " ".join(output_of(["data", "check", "--help"], capfd).split())
    data, tutorial = ((ROOT / "docs" / f"{page}.md").read_text() for page in ("data", "tutorial"))
    assert "other columns are left out" in described
    assert "other columns, such as a number or a status, are left out" in " ".join(data.split())
    assert "It has only the two columns of `--fields`" in tutorial


def test_a_shifted_text_has_a_verdict_above_the_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = pairs(ROWS)
    for name, lines in (("en", source), ("de", target[1:] + target[:1])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    first, *lines = output_of(
        ["data", "check", "--source", tmp_path / "en", "--target", tmp_path / "de"], capfd
    ).splitlines()
    assert first.startswith("An estimated ") and first.endswith("dropping the pairs.")
    below = "the target translates the source 1 line below"
    assert below in first and lines[-3].endswith(below)


def test_the_help_and_the_page_name_every_kind(capfd: pytest.CaptureFixture[str]) -> None:
    described = " ".join(output_of(["data", "check", "--help"], capfd).split())
    *kinds, last = KINDS
    assert f"The kinds are {', '.join(kinds)} and {last}." in described
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert {kind for line in rows for kind in re.findall("`([a-z-]+)`", line.split("|")[1])} >= {
        *KINDS
    }


def test_spaces_around_skipped_kinds_are_ignored(
    files: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    for skip in ([" ,misaligned,, duplicate ,"], ["misaligned", "--skip", "duplicate"]):
        text = output_of(["data", "check", *files, "--skip", *skip], capfd)
        assert text == "601 pairs checked, none is suspect\n"


def test_apply_writes_what_the_table_does_not_list(
    files: list[object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    text = output_of(
        ["data", "check", *files, "--out", out, "--apply", "--skip", "misaligned"], capfd
    )
    assert text.endswith(f"{out}/train.en, {out}/train.de: 600 pairs kept\n")
    for name in ("train.en", "train.de"):
        lines = (tmp_path / name).read_text().splitlines()
        assert (out / name).read_text().splitlines() == lines[:600]
    assert output_of(
        ["data", "check", "--source", out / "train.en", "--target", out / "train.de",
         "--skip", "misaligned"],
        capfd,
    ) == "600 pairs checked, none is suspect\n"  # fmt: skip


def test_too_few_pairs_for_alignment_bring_a_note(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tsv").write_text("a b\tc d\n")
    from crosshead.cli import run

    assert run(["data", "check", "--pairs", str(tmp_path / "x.tsv")]) == 0
    captured = capfd.readouterr()
    assert captured.out == "1 pair checked, none is suspect\n"
    assert "no pairs of the kind misaligned were looked for" in captured.err
    (tmp_path / "x.tsv").write_text("a b\ta b\n")
    text = output_of(["data", "check", "--pairs", tmp_path / "x.tsv"], capfd)
    assert text.startswith("Both sides hold the same text in 100% of the pairs; ")
    assert "1 of 1 pair is suspect (100.0%)" in text


def test_wrong_options_are_refused(files: list[object], tmp_path: Path, refused: Refused) -> None:
    check = ("data", "check")
    assert "nothing to check: give --source and --target, or --pairs" in refused(*check)
    said = refused(*check, "pairs.tsv")
    assert "(pairs.tsv); files have options: --pairs for one with both sides, or --source" in said
    assert "give a directory for them with --out" in refused(*check, *files, "--apply")
    (tmp_path / "file").touch()
    assert "file/out: cannot make" in refused(*check, *files, "--out", tmp_path / "file" / "out")
    assert "unknown kind of pairs 'typo'" in refused(*check, *files, "--skip", "typo")
    assert "--source names 1 file but --target 0" in refused(*check, *files[:2])
    assert "--target names 1 file but --source 0" in refused(*check, *files[2:])
    assert "no such file" in refused(*check, "--pairs", tmp_path / "none.tsv")
    assert "a file that is read" in refused(*check, *files, "--out", tmp_path, "--apply")
    (exam := tmp_path / "exam").mkdir()
    for name in ("train.en", "train.de"):
        (exam / name).write_text("x\n")
    valid = ("--valid-source", exam / "train.en", "--valid-target", exam / "train.de")
    said = refused(*check, *files, *valid, "--out", exam, "--apply")
    assert "a file that is read" in said and (exam / "train.en").read_text() == "x\n"
    (alike := tmp_path / "alike.tsv").write_text("one\tone\ntwo\ttwo\n")
    said = refused(*check, "--pairs", alike, "--out", tmp_path / "none", "--apply")
    assert "alike.tsv: all pairs are suspect, so the cleaned text would be empty; check" in said
    assert "give --apply too" in refused(*check, *files, "--out", tmp_path / "x", "--force")
    assert not (tmp_path / "none").exists()
    (kept := tmp_path / "kept").mkdir()
    (kept / "train.de").write_text("other text\n")
    said = refused(*check, *files, "--out", kept, "--apply")
    assert f"{kept / 'train.de'}: there is such a file; --force replaces it" in said
    assert (kept / "train.de").read_text() == "other text\n"
    jsonl = tmp_path / "x.jsonl"
    jsonl.write_text('{"a": "b", "c": "d"}\n')
    assert "name the fields of source and target with --fields" in refused(*check, "--pairs", jsonl)
    assert not list(tmp_path.glob("**/suspects.tsv"))


def test_a_shorter_file_is_refused(files: list[object], refused: Refused) -> None:
    Path(str(files[3])).write_text("one\n")
    assert "has 601 lines but" in refused("data", "check", *files)
