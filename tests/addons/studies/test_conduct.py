import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead.addons.studies import conduct as conducted
from crosshead.addons.studies.charts import Sheet
from crosshead.addons.studies.conduct import (
    STUDIES,
    Record,
    as_json,
    as_markdown,
    chosen,
    conduct,
    listed,
    picture,
    summary,
    write,
)
from crosshead.addons.studies.runs import MissingDataError
from crosshead.addons.studies.study import (
    CAVEAT,
    Band,
    Result,
    Study,
    Trial,
    judge,
    reported,
)
from crosshead.errors import ConfigError, UserError
from tests.parameters import mostly_slow


def run(trial: Trial) -> Result:
    trial.say("half way")
    value = 0.25 if trial.seed == 3 else float(torch.rand(()))
    return Result(
        {"drawn": value, "lost": "nobody looked", "seen": 7.0},
        [
            Sheet("Numbers", {"drawn": {"value": [value]}}, drawn=False),
            Sheet("drawn", {"line": {0: [0.0], 1: [value]}}, listed=False),
        ],
    )


BANDS = (
    Band("drawn", 0, 0.5, "A guess."),
    Band("lost", 0, float("inf"), "Never found."),
    reported("seen", "No source has a number."),
)
STUDY = Study("toy", "A toy", "Toys are drawn.", "Nobody, section 0", BANDS, run, seconds=720)


def record(*, quick: bool = False, seed: int = 3) -> Record:
    return conduct(STUDY, quick=quick, seed=seed, say=lambda line: None)


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = record(seed=4).result.measured
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert record(seed=4).result.measured == first
    assert record(seed=5).result.measured != first


def test_a_record_is_written_as_a_page_as_json_and_as_a_picture(tmp_path: Path) -> None:
    written = write(record(), tmp_path / "new", print)
    assert {path.name for path in written} == {"toy.md", "toy.json", "toy.png"}
    page = (tmp_path / "new" / "toy.md").read_text("utf-8")
    for said in (
        "# A toy\n",
        "> Toys are drawn.\n>\n> Nobody, section 0\n",
        "- drawn: 0 to 0.5. A guess.\n- lost: at least 0. Never found.\n"
        "- seen: reported, not judged. No source has a number.\n",
        "**Holds as far as measured: 1 of 1 as expected, 1 not measured.**",
        "| drawn | 0 to 0.5 | 0.25 | as expected |\n"
        "| lost | at least 0 | not measured | nobody looked |\n"
        "| seen |  | 7 | reported, not judged |",
        "Numbers:\n\n|  | value |\n|---|---|\n| drawn | 0.25 |",
        "![A toy](toy.png)",
        "- command: crosshead study toy --seed 3 --threads ",
    ):
        assert said in page
    found = json.loads((tmp_path / "new" / "toy.json").read_text("utf-8"))
    assert found["verdict"] == "holds as far as measured" and found["seed"] == 3
    assert found["form"] == "full form" and not found["caveat"]
    assert found["bands"][1]["not measured because"] == "nobody looked"
    assert [band["judged"] for band in found["bands"]] == [True, True, False]
    assert [band["measured"] for band in found["bands"]] == [0.25, None, 7]
    assert [band["high"] for band in found["bands"]] == [0.5, "inf", "inf"]
    assert (tmp_path / "new" / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_the_quick_form_shows_what_it_finds_and_judges_nothing() -> None:
    found = record(quick=True)
    assert found.verdict.word == "not measured" and found.result.sheets
    assert set(found.result.measured.values()) == {"too small to measure"}


def test_json_has_no_number_that_json_lacks() -> None:
    def refused(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(as_json(record()), parse_constant=refused)


def test_without_matplotlib_there_is_no_picture_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said: list[str] = []
    written = write(record(), tmp_path, said.append)
    assert [path.name for path in written] == ["toy.json", "toy.md"]
    assert said == ["no picture: matplotlib is not installed (pip install 'crosshead[plot]')"]
    assert "![" not in written[1].read_text("utf-8")


def test_a_picture_that_fails_as_it_is_drawn_is_one_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(figure: Any, sheets: object) -> None:
        raise MemoryError

    monkeypatch.setattr(conducted, "draw", failing)
    said = list[str]()
    written = write(record(), tmp_path, said.append)
    assert [path.name for path in written] == ["toy.json", "toy.md"]
    assert said == ["no picture: matplotlib fails (MemoryError)"]


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the directory"):
        write(record(), tmp_path / "file", print)


def test_data_that_is_missing_is_the_reason_of_every_quantity() -> None:
    def missing(trial: Trial) -> Result:
        raise MissingDataError("no toys here")

    said: list[str] = []
    study = dataclasses.replace(STUDY, run=missing)
    found = conduct(study, quick=False, seed=3, say=said.append)
    assert said == ["no toys here"] and found.verdict.word == "not measured"
    assert set(found.result.measured.values()) == {"no toys here"}


def test_a_page_says_how_many_runs_were_found_again(tmp_path: Path) -> None:
    def trains(trial: Trial) -> Result:
        for name in ("one", "another", "one"):
            trial.keeps(tmp_path / name)
            (tmp_path / name).write_text("{}")
        return run(trial)

    study = dataclasses.replace(STUDY, run=trains)
    for number in (0, 1, 2):
        found = conduct(study, quick=True, seed=3, say=lambda line: None)
        assert found.circumstances["runs found again"] == f"{number} of 2"
        if number == 0:
            (tmp_path / "another").unlink()


def test_a_page_ends_with_the_circumstances() -> None:
    page = as_markdown(record(), with_picture=False)
    keys = [line.removeprefix("- ").split(":")[0] for line in page.splitlines()[-8:]]
    assert keys == [
        "command",
        "form",
        "version",
        "date",
        "runs found again",
        "cores",
        "processor units",
        "seconds",
    ]


@pytest.mark.parametrize("quick", [True, False])
def test_a_caveat_stands_on_the_page_in_the_picture_and_beside_the_verdict(
    quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    found = record(quick=quick)
    monkeypatch.setattr(conducted, "draw", lambda figure, sheets: figures.append(figure))
    picture(found)
    [figure] = figures
    page = as_markdown(found, with_picture=False)
    said = (figure.get_suptitle(), page.partition("\n>")[0], found.said(brief=True))
    if quick:
        assert all(CAVEAT[1:] in each for each in said)
        assert CAVEAT in summary([found]).title
    else:
        assert found.caveat == figure.get_suptitle() == ""
        assert "form" not in said[1] + said[2]


def test_the_command_states_the_form() -> None:
    assert "study toy --quick --seed 3" in record(quick=True).circumstances["command"]
    assert "study toy --seed 3" in record().circumstances["command"]


def test_a_list_of_studies_has_their_times() -> None:
    assert listed([STUDY]).rows == [["study", "full form", "title"], ["toy", "12 min", "A toy"]]


DEFAULT = ["sets", "grounding"]
"""A study of every kind: a few layers, and a whole training run."""


@pytest.mark.parametrize("name", mostly_slow(STUDIES, DEFAULT))
def test_every_study_runs_and_its_verdict_follows_from_its_numbers(
    name: str, tmp_path: Path
) -> None:
    study = STUDIES[name]
    assert study.name == name
    said: list[str] = []
    record = conduct(study, quick=True, seed=1, say=said.append)
    assert record.verdict.word == "not measured"
    assert set(record.result.measured) == {each.name for each in study.bands}
    judged = [band for band in study.bands if band.judged]
    # Numbers that are wrong turn the verdict around: no band holds them all.
    wrong = {band.name: band.low - 1 for band in judged}
    assert judge(study.bands, wrong).word == "does not hold"
    assert {path.suffix for path in write(record, tmp_path, print)} == {".md", ".json", ".png"}
    assert len((tmp_path / f"{name}.png").read_bytes()) < 60_000


def test_an_unknown_name_is_one_line() -> None:
    assert chosen("all") == list(STUDIES.values())
    with pytest.raises(ConfigError, match="unknown study 'set'; did you mean 'sets'"):
        chosen("set")


def test_bands_have_names_of_their_own_and_reasons_and_studies_have_times() -> None:
    for study in STUDIES.values():
        names = [each.name for each in study.bands]
        assert len(set(names)) == len(names)
        assert all(band.why and band.low <= band.high for band in study.bands)
        assert study.seconds > 0
        assert all(getattr(study, each.name) for each in dataclasses.fields(study))


def test_no_band_says_only_a_sign() -> None:
    """A band with an end at zero has another one, that of a share or of what rounding leaves."""
    for study in STUDIES.values():
        assert not [band for band in study.bands if band.low == 0 and band.high > 1]
