from pathlib import Path

import pytest

from crosshead.cli import run


def test_a_study_says_claim_expectation_table_and_verdict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["study", "masks", "--quick", "--out", str(tmp_path), "--threads", "1"]) == 0
    said = capfd.readouterr().out
    order = [
        "“We need to prevent",
        "section 3.2.3",
        "Expected:",
        "attention  1.0000",
        "Verdict: holds",
    ]
    places = [said.index(part) for part in order]
    assert places == sorted(places)
    assert {path.name for path in tmp_path.iterdir()} == {"masks.md", "masks.json", "masks.png"}


@pytest.mark.parametrize("arguments", [["study"], ["study", "list"]])
def test_studies_are_listed(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    lines = [line.split(maxsplit=1) for line in capfd.readouterr().out.splitlines()]
    assert ["masks", "A causal mask leaves the future no weight and no gradient"] in lines


def test_an_unknown_study_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "sinusoid"]) == 2
    said = capfd.readouterr().err
    assert said == "crosshead: error: no study 'sinusoid'; did you mean 'sinusoids'?\n"


def test_help_has_an_example_and_says_what_a_study_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "--help"]) == 0
    said = capfd.readouterr().out
    assert "crosshead study masks" in said.partition("Example")[2]
    assert "[NAME]" in said and "--quick" in said


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["study", "masks", "--out", str(tmp_path / "file")]) == 2
    said = capfd.readouterr()
    assert said.out == "" and "cannot be made a directory" in said.err
