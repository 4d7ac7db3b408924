import pytest

from crosshead.addons.studies.effort import FULL, QUICK
from crosshead.addons.studies.linear import (
    BANDS,
    DIRECT,
    LINEAR_PAST,
    PATCHED,
    PLAIN,
    PLAIN_PAST,
    UNTRAINED,
    measured,
)


def scores(error: float) -> dict[str, float]:
    return {"MSE": error, "MSE of seasonal naive (24)": 3.0}


FOUND = {
    ("dlinear", 96, 1): scores(4.0),
    ("dlinear", 336, 1): scores(2.0),
    ("transformer", 96, 1): scores(8.0),
    ("transformer", 336, 1): scores(12.0),
    ("direct", 336, 1): scores(3.0),
    ("patchtst", 336, 1): scores(1.8),
}


def test_ratios_compare_what_their_names_say() -> None:
    found = measured(FOUND, FULL)
    assert set(found) == {band.name for band in BANDS}
    names = (PLAIN, DIRECT, PATCHED, LINEAR_PAST, PLAIN_PAST, UNTRAINED)
    assert [found[name] for name in names] == [
        pytest.approx(each) for each in (6.0, 1.5, 0.9, 0.5, 1.5, 1.5)
    ]


def test_a_few_updates_measure_nothing() -> None:
    assert all(isinstance(each, str) for each in measured(FOUND, QUICK).values())
