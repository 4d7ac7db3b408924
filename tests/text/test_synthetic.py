import builtins
import random
from datetime import date, timedelta

import pytest

from crosshead.errors import UserError
from crosshead.text.synthetic import (
    MOST_PAIRS,
    PATTERNS,
    UNSEEN_PATTERNS,
    DatePairs,
    DatePattern,
    date_pairs,
    write_date,
)


@pytest.fixture(scope="module")
def pairs() -> DatePairs:
    return date_pairs(seed=1)


def sources(pairs: list[tuple[str, str]]) -> set[str]:
    return {source for source, _ in pairs}


def test_there_are_enough_pairs_and_none_twice(pairs: DatePairs) -> None:
    sets = (pairs.train, pairs.valid, pairs.test, pairs.unseen_patterns)
    assert [len(part) for part in sets] == [12_000, 500, 500, 500]
    assert len(set().union(*map(sources, sets))) == sum(map(len, sets))


def test_german_is_a_function_of_english() -> None:
    """Over all patterns, a common year and a leap year."""
    german: dict[str, str] = {}
    for first in (date(1900, 1, 1), date(2024, 1, 1)):
        for day in (first + timedelta(n) for n in range(365)):
            for pattern in PATTERNS + UNSEEN_PATTERNS:
                source, target = write_date(day, pattern)
                assert german.setdefault(source, target) == target, (source, pattern)


def test_full_dates_of_the_test_set_are_not_in_training(pairs: DatePairs) -> None:
    """A German date with its month in letters and its year tells the day, whatever the pattern."""

    def days(part: list[tuple[str, str]]) -> set[str]:
        return {
            target.split(", ")[-1]
            for _, target in part
            if target[-4:].isdigit() and target.split(", ")[-1].count(" ") == 2
        }

    for part in (pairs.valid, pairs.test):
        assert len(days(part)) > 100
        assert not days(part) & days(pairs.train)


def test_unseen_patterns_are_new_patterns_of_known_words(pairs: DatePairs) -> None:
    day = date(2021, 9, 5)
    known = {write_date(day, pattern)[0] for pattern in PATTERNS}
    new = {write_date(day, pattern)[0] for pattern in UNSEEN_PATTERNS}
    assert len(known) == len(PATTERNS) and len(new) == len(UNSEEN_PATTERNS)
    assert not known & new

    def words(lines: set[str]) -> set[str]:
        return {word.strip(",.") for line in lines for word in line.split() if word[0].isalpha()}

    for side in (0, 1):
        trained = words({pair[side] for pair in pairs.train})
        assert words({pair[side] for pair in pairs.unseen_patterns}) <= trained


def test_the_seed_decides_everything() -> None:
    assert date_pairs(seed=3, size=200) == date_pairs(seed=3, size=200)
    assert date_pairs(seed=3, size=200) != date_pairs(seed=4, size=200)


@pytest.mark.parametrize(
    ("pattern", "english", "german"),
    [
        (DatePattern("US", "full", "full"), "Friday, March 5, 2021", "Freitag, 5. März 2021"),
        (DatePattern("GB", "yMd", "yMMdd"), "05/03/2021", "05.03.2021"),
        (DatePattern("GB", "yw", "yw"), "week 9 of 2021", "Woche 9 des Jahres 2021"),
    ],
)
def test_dates_are_written_as_people_write_them(
    pattern: DatePattern, english: str, german: str
) -> None:
    assert write_date(date(2021, 3, 5), pattern) == (english, german)


def test_without_babel_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_babel(name: str, *rest: object) -> object:
        if name.startswith("babel"):
            raise ImportError(name)
        return real_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_babel)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[quickstart\]'"):
        date_pairs(size=1)


def test_more_pairs_than_there_are_dates_to_write_are_refused() -> None:
    with pytest.raises(UserError, match=r"500,001 pairs of dates .* at most 500,000"):
        date_pairs(size=MOST_PAIRS + 1)


def test_the_most_pairs_can_be_made() -> None:
    """Of the lines of one year in a hundred, as many are different as the share of it needs."""
    year = [date(2021, 1, 1) + timedelta(n) for n in range(365)]
    days = random.Random(1).sample(year, 365 * 16 // 19)  # as many are left to train on
    lines = {write_date(day, pattern)[0] for day in days for pattern in PATTERNS}
    assert 200 * len(lines) > 2 * MOST_PAIRS
