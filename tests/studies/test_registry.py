import dataclasses
from pathlib import Path

import pytest

from crosshead.errors import ConfigError
from crosshead.studies.conduct import conduct, write
from crosshead.studies.registry import STUDIES, chosen
from crosshead.studies.study import judge


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_and_its_verdict_follows_from_its_numbers(
    name: str, tmp_path: Path
) -> None:
    study = STUDIES[name]
    assert study.name == name
    said: list[str] = []
    record = conduct(study, quick=True, seed=1, say=said.append)
    measured = record.result.measured
    met = [band.name for band in study.bands if band.low <= measured[band.name] <= band.high]
    assert record.verdict.met == met
    # Numbers that are wrong turn the verdict around: no band holds them all.
    wrong = {band.name: band.low - 1 for band in study.bands}
    assert judge(study.bands, wrong).word == "does not hold"
    assert {path.suffix for path in write(record, tmp_path, print)} == {".md", ".json", ".png"}
    assert len((tmp_path / f"{name}.png").read_bytes()) < 60_000


def test_what_is_proven_holds_at_any_size() -> None:
    for name in ("masks", "sinusoids"):
        record = conduct(STUDIES[name], quick=True, seed=2, say=lambda line: None)
        assert record.verdict.word == "holds", record.verdict


def test_an_unknown_name_is_one_line() -> None:
    assert chosen("all") == list(STUDIES.values())
    with pytest.raises(ConfigError, match="no study 'mask'; did you mean 'masks'"):
        chosen("mask")


def test_bands_have_names_of_their_own_and_reasons() -> None:
    for study in STUDIES.values():
        names = [band.name for band in study.bands]
        assert len(set(names)) == len(names)
        assert all(band.why and band.low <= band.high for band in study.bands)
        assert {f.name for f in dataclasses.fields(study) if not getattr(study, f.name)} == set()
