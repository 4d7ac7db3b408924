from crosshead.studies.registry import STUDIES
from crosshead.studies.times import TIMES


def test_every_study_has_its_own_times() -> None:
    assert set(TIMES) == set(STUDIES)
    for name, study in STUDIES.items():
        assert study.times == TIMES[name]
        assert 0 < study.times.quick <= study.times.full
