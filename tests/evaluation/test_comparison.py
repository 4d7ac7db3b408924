import pytest

from crosshead.errors import ConfigError, DataError
from crosshead.evaluation.comparison import compare
from tests.evaluation.texts import BAD, GOOD, REFERENCES


def test_a_better_system_is_told_from_a_worse_one() -> None:
    rows = compare({"bad": BAD, "good": GOOD, "same": BAD}, REFERENCES, ["bleu", "chrf"])
    assert [(row.metric, row.system) for row in rows] == [
        (metric, system) for metric in ("BLEU", "chrF2") for system in ("bad", "good", "same")
    ]
    baseline, good, same = rows[:3]
    assert baseline.p_value is None
    assert good.value > baseline.value
    assert good.p_value is not None
    assert good.p_value < 0.05
    assert same.p_value == 1.0
    assert good.low < good.value < good.high
    assert "seed:" in good.signature or "rs:" in good.signature


def test_systems_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least two systems"):
        compare({"one": ["a"]}, ["a"])
    with pytest.raises(DataError, match=r"found 1 translations \(two\) and 2 references"):
        compare({"one": ["a", "b"], "two": ["a"]}, ["a", "b"])
    with pytest.raises(DataError, match=r"^two: expected a list of sentences, found 'a'"):
        compare({"one": ["a"], "two": "a"}, ["a"])
