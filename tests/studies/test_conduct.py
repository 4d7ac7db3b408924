import dataclasses
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from crosshead import __version__
from crosshead.errors import UserError
from crosshead.studies.conduct import Record, as_json, as_markdown, conduct, write
from crosshead.studies.study import Band, Result, Say, Study, Table


def run(quick: bool, seed: int, say: Say) -> Result:
    say("half way")
    value = 0.25 if quick else float(torch.rand(()))
    return Result(
        {"drawn": value}, [Table("Numbers", [["", "value"], ["drawn", str(value)]])],
        lambda figure: figure.subplots().plot([0, value]),
    )  # fmt: skip


BANDS = (Band("drawn", 0, 0.5, "A guess."), Band("lost", 0, float("inf"), "Never found."))
STUDY = Study("toy", "A toy", "Toys are drawn.", "Nobody, section 0", BANDS, run)


def record(*, quick: bool = True, seed: int = 3) -> Record:
    return conduct(STUDY, quick=quick, seed=seed, say=lambda line: None)


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = record(quick=False).result.measured
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert record(quick=False).result.measured == first
    assert record(quick=False, seed=4).result.measured != first


def test_a_record_is_written_as_a_page_as_json_and_as_a_picture(tmp_path: Path) -> None:
    written = write(record(), tmp_path / "new", print)
    assert {path.name for path in written} == {"toy.md", "toy.json", "toy.png"}
    page = (tmp_path / "new" / "toy.md").read_text("utf-8")
    for said in (
        "# A toy\n",
        "> Toys are drawn.\n>\n> Nobody, section 0\n",
        "- drawn: 0 to 0.5. A guess.\n- lost: at least 0. Never found.\n",
        "**Holds in part: 1 of 2 as expected; not measured: lost.**",
        "| drawn | 0 to 0.5 | 0.25 | as expected |\n| lost | at least 0 | not measured |  |",
        "Numbers:\n\n|  | value |\n|---|---|\n| drawn | 0.25 |",
        "![A toy](toy.png)",
        "- command: crosshead study toy --quick --seed 3 --threads ",
    ):
        assert said in page
    found = json.loads((tmp_path / "new" / "toy.json").read_text("utf-8"))
    assert found["verdict"] == "holds in part" and found["seed"] == 3 and found["quick"] is True
    assert [band["measured"] for band in found["bands"]] == [0.25, None]
    assert [band["high"] for band in found["bands"]] == [0.5, "inf"]
    assert (tmp_path / "new" / "toy.png").read_bytes().startswith(b"\x89PNG")


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


def test_a_picture_that_fails_as_it_is_drawn_is_one_line_too(tmp_path: Path) -> None:
    def failing(figure: Any) -> None:
        raise MemoryError

    found, said = record(), list[str]()
    result = dataclasses.replace(found.result, draw=failing)
    written = write(dataclasses.replace(found, result=result), tmp_path, said.append)
    assert [path.name for path in written] == ["toy.json", "toy.md"]
    assert said == ["no picture: matplotlib fails (MemoryError)"]


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made a directory"):
        write(record(), tmp_path / "file", print)


def test_a_page_says_which_runs_were_found_again_and_from_when(tmp_path: Path) -> None:
    old, older, new = (tmp_path / name for name in ("old", "older", "new"))
    for path, version, days in ((old, "0.1.0", 3), (older, "0.0.9", 5)):
        path.write_text(json.dumps({"crosshead": version}))
        then = datetime(2026, 3, 10, 12, tzinfo=UTC) - timedelta(days)
        os.utime(path, (then.timestamp(),) * 2)

    def trains(quick: bool, seed: int, say: Say) -> Result:
        new.write_text(json.dumps({"crosshead": __version__}))
        os.utime(new, (time.time() + 60,) * 2)  # some file systems count in seconds
        return dataclasses.replace(run(quick, seed, say), kept=kept)

    study = dataclasses.replace(STUDY, run=trains)
    kept: list[Path] = []
    for files, said in (
        ([old, new], "1 of 2 runs, trained on 2026-03-07 by crosshead 0.1.0"),
        (
            [old, new, older],
            "2 of 3 runs, trained on 2026-03-05 to 2026-03-07 by crosshead 0.0.9 and 0.1.0",
        ),
        ([new, tmp_path / "gone"], ""),
    ):
        kept[:] = files
        found = conduct(study, quick=True, seed=3, say=lambda line: None)
        page = as_markdown(found, with_picture=False)
        assert (f"\n- found again: {said}\n" in page) == bool(said)
        assert json.loads(as_json(found)).get("found again", "") == said


def test_a_page_ends_with_the_circumstances() -> None:
    page = as_markdown(record(), with_picture=False)
    keys = [line.split(":")[0] for line in page.splitlines()[-6:]]
    assert keys == ["- command", "- version", "- date", "- cores", "- processor units", "- seconds"]
