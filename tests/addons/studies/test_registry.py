import dataclasses
from pathlib import Path

import pytest

from crosshead.addons.studies.conduct import conduct, write
from crosshead.addons.studies.registry import STUDIES, chosen
from crosshead.addons.studies.study import QUICK, judge
from crosshead.errors import ConfigError
from tests.addons.studies.trials import quick
from tests.parameters import mostly_slow

DEFAULT = ["masks", "grounding"]
"""A study of every kind: what is proven, and what is trained."""


@pytest.mark.parametrize("name", mostly_slow(STUDIES, DEFAULT))
def test_every_study_runs_and_its_verdict_follows_from_its_numbers(
    name: str, tmp_path: Path
) -> None:
    study = STUDIES[name]
    assert study.name == name
    said: list[str] = []
    record = conduct(study, effort=QUICK, seed=1, say=said.append)
    assert record.verdict.word == "not measured"
    assert set(record.result.measured) == {each.name for each in study.bands}
    judged = [band for band in study.bands if band.judged]
    # Numbers that are wrong turn the verdict around: no band holds them all.
    wrong = {band.name: band.low - 1 for band in judged}
    assert judge(study.bands, wrong).word == "does not hold"
    assert {path.suffix for path in write(record, tmp_path, print)} == {".md", ".json", ".png"}
    assert len((tmp_path / f"{name}.png").read_bytes()) < 60_000


@pytest.mark.parametrize("name", ["masks", "sinusoids"])
def test_what_is_proven_holds_at_any_size(name: str, tmp_path: Path) -> None:
    verdict = judge(STUDIES[name].bands, STUDIES[name].run(quick(tmp_path)).measured)
    assert verdict.word == "holds", verdict


def test_an_unknown_name_is_one_line() -> None:
    assert chosen("all") == list(STUDIES.values())
    with pytest.raises(ConfigError, match="unknown study 'mask'; did you mean 'masks'"):
        chosen("mask")


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
