import re
from pathlib import Path

import pytest

from crosshead.addons.studies import conduct
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial
from crosshead.cli import run


def test_a_study_says_claim_expectation_table_and_verdict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["study", "sets", "--quick", "--out", str(tmp_path), "--threads", "1"]) == 0
    said = capfd.readouterr().out
    order = [
        "“Since our model contains",
        "section 3.5",
        "Expected:",
        "This is the quick form: it shows that the code runs, and judges nothing.",
        "attention without parameters           ",
        "Verdict: (quick form: it shows that the code runs, and judges nothing) not measured.",
    ]
    places = [said.index(part) for part in order]
    assert places == sorted(places)
    assert {path.name for path in tmp_path.iterdir()} == {"sets.md", "sets.json", "sets.png"}


def toy(name: str, *found: float) -> Study:
    """A study of bands from 0 to 1, one for each value found."""
    measured = {f"{name}'s {place}": value for place, value in enumerate(found)}
    bands = tuple(Band(each, 0, 1, "A guess.") for each in measured)
    tables = [Table("Numbers", [["name"], *([each] for each in measured)])]

    def run_it(trial: Trial) -> Result:
        return Result(measured, tables=tables)

    return Study(name, f"A {name}", "Toys hold.", "Nobody, section 0", bands, run_it, 720)


def test_all_studies_end_with_a_table_of_verdicts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = {"first": toy("first", 0.5, 0.25), "second": toy("second", 3.0, 0.5, 2.0)}
    monkeypatch.setattr(conduct, "STUDIES", toys)
    assert run(["study", "all", "--out", str(tmp_path)]) == 0
    said = capfd.readouterr().out
    each, last = said.split("\nVerdicts:\n")
    assert [re.split("  +", line)[:-1] for line in last.splitlines()] == [
        ["study", "verdict", "as expected"],
        ["first", "holds", "2 of 2"],
        ["second", "holds in part", "1 of 3"],
    ]
    assert "\nVerdict: holds.\n" in each and "\nVerdict: holds in part.\n" in each
    assert all((tmp_path / f"{name}.md").is_file() for name in toys)


def test_one_study_names_what_was_missed_and_has_no_table_of_verdicts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conduct, "STUDIES", {"second": toy("second", 3.0, 0.5)})
    assert run(["study", "second", "--out", str(tmp_path)]) == 0
    said = capfd.readouterr().out
    assert "Verdict: holds in part: 1 of 2 as expected; not: second's 0.\n" in said
    assert "Verdicts:" not in said


@pytest.mark.parametrize("arguments", [["study"], ["study", "list"]])
def test_studies_are_listed(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    lines = [re.split("  +", line) for line in capfd.readouterr().out.splitlines()]
    assert lines[0] == ["study", "full form", "title"]
    [sets] = [line for line in lines if line[0] == "sets"]
    assert sets[2] == "Without positions, attention sees a set"
    assert re.fullmatch(r"\d+ (s|min|h)( \d+ min)?", sets[1])


def test_an_unknown_study_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "gradient"]) == 2
    said = capfd.readouterr().err
    assert said == "crosshead: error: unknown study 'gradient'; did you mean 'gradients'?\n"


def test_help_has_an_example_and_says_what_a_study_is(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "--help"]) == 0
    said = capfd.readouterr().out
    assert "crosshead study sets" in said.partition("Example")[2]
    assert "[NAME]" in said and "--quick" in said


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["study", "sets", "--out", str(tmp_path / "file")]) == 2
    said = capfd.readouterr()
    assert said.out == "" and "cannot make the directory" in said.err
