"""Synthetic parallel data: dates in English and German.

The dates are a real translation task without a download. The Unicode CLDR, which the package Babel
contains, defines how each language and country writes a date. `date_pairs` writes days of 1900 to
2099 in patterns of several English-speaking countries and in the equivalent German pattern. The
German side is always a function of the English side. Patterns that two countries read differently
(03/04 is a day of March or of April) are left out or belong to one country only.
"""

import random
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from crosshead.errors import UserError

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
HELD_OUT = 500  # pairs in each of `valid`, `test` and `unseen_patterns`
MOST_PAIRS = 500_000
"""The largest training set: half of all pairs that can be written, so that most random draws are
new."""

Pair = tuple[str, str]


class DatePattern(NamedTuple):
    """A date pattern of one English-speaking country, and the equivalent German pattern.

    Each pattern is the name of a CLDR date format (full, long, medium) or a CLDR skeleton. The
    letters of a skeleton name the fields shown (y year, M month, d day, E weekday, Q quarter, w
    week, G era). Repeated letters mean a longer form.
    """

    country: str
    english: str
    german: str


PATTERNS = (
    DatePattern("US", "full", "full"),  # Friday, March 5, 2021
    DatePattern("GB", "full", "full"),  # Friday, 5 March 2021
    DatePattern("IE", "full", "full"),  # Friday 5 March 2021
    DatePattern("ZA", "full", "full"),  # Friday, 05 March 2021
    DatePattern("US", "long", "long"),  # March 5, 2021
    DatePattern("GB", "long", "long"),  # 5 March 2021
    DatePattern("ZA", "long", "long"),  # 05 March 2021
    DatePattern("US", "yMMMd", "yMMMd"),  # Sep 5, 2021
    DatePattern("GB", "yMMMd", "yMMMd"),  # 5 Sept 2021
    DatePattern("ZA", "yMMMd", "yMMMd"),  # 05 Sept 2021
    DatePattern("US", "yMMMEd", "yMMMEd"),  # Fri, Mar 5, 2021
    DatePattern("GB", "yMMMEd", "yMMMEd"),  # Fri, 5 Mar 2021
    DatePattern("ZA", "yMMMEd", "yMMMEd"),  # Fri, 05 Mar 2021
    DatePattern("US", "MMMEd", "MMMEd"),  # Fri, Mar 5
    DatePattern("GB", "MMMEd", "MMMEd"),  # Fri 5 Mar
    DatePattern("US", "GyMMMd", "GyMMMd"),  # Mar 5, 2021 AD
    DatePattern("GB", "GyMMMEd", "GyMMMEd"),  # Fri, 5 Mar 2021 AD
    DatePattern("GB", "GyMd", "GyMd"),  # 05/03/2021 AD
    DatePattern("GB", "yMd", "yMMdd"),  # 05/03/2021
    DatePattern("IN", "yMd", "yMd"),  # 5/3/2021
    DatePattern("SE", "yMd", "yMMdd"),  # 2021-03-05
    DatePattern("GB", "yMEd", "yMEd"),  # Fri, 05/03/2021
    DatePattern("SE", "yMEd", "yMEd"),  # Fri, 2021-03-05
    DatePattern("US", "yMMMM", "yMMMM"),  # March 2021
    DatePattern("US", "yMMM", "yMMM"),  # Sep 2021
    DatePattern("GB", "yMMM", "yMMM"),  # Sept 2021
    DatePattern("GB", "GyMMM", "GyMMM"),  # Sept 2021 AD
    DatePattern("US", "yQQQ", "yQQQ"),  # Q1 2021
    DatePattern("US", "yQQQQ", "yQQQQ"),  # 1st quarter 2021
    DatePattern("GB", "yw", "yw"),  # week 9 of 2021 (as in Germany, unlike in the US)
)

UNSEEN_PATTERNS = (
    DatePattern("IE", "yMMMEd", "yMMMEd"),  # Fri 5 Mar 2021
    DatePattern("IN", "yMMMEd", "yMMMEd"),  # Fri, 5 Mar, 2021
    DatePattern("IN", "yMEd", "yMEd"),  # Fri, 5/3/2021
    DatePattern("ZA", "yMd", "yMMdd"),  # 2021/03/05
    DatePattern("HK", "MMMMEd", "MMMMEd"),  # Fri, 5 March
    DatePattern("GB", "GyMMMd", "GyMMMd"),  # 5 Mar 2021 AD
    DatePattern("BW", "GyMMMd", "GyMMMd"),  # 05 Mar 2021 AD
    DatePattern("US", "GyMMMEd", "GyMMMEd"),  # Fri, Mar 5, 2021 AD
)


@dataclass(frozen=True)
class DatePairs:
    """English and German dates, split into sets that share no day and no English line.

    The patterns of `unseen_patterns` occur in no other set, but their words do. This set tests
    composition; `test` tests known patterns on new days.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    unseen_patterns: list[Pair]


def date_pairs(seed: int = 1, size: int = 12_000) -> DatePairs:
    """Make pairs of English and German dates; the same seed gives the same pairs.

    A nineteenth of the days belongs to each of the other sets, the rest to training.

    Args:
        seed: The random seed.
        size: The number of training pairs. Each of the other sets has 500.

    Returns:
        The sets of pairs.

    Raises:
        UserError: If Babel is not installed, or `size` is above `MOST_PAIRS`.
    """
    if size > MOST_PAIRS:
        raise UserError(
            f"{size:,} pairs of dates are too many; expected at most {MOST_PAIRS:,}, because "
            "few more different pairs exist"
        )
    rng = random.Random(seed)
    days = [FIRST_DAY + timedelta(n) for n in range((LAST_DAY - FIRST_DAY).days + 1)]
    rng.shuffle(days)
    held_out = len(days) // 19
    seen: set[str] = set()
    valid, test, unseen = (
        _draw(rng, HELD_OUT, days[n * held_out : (n + 1) * held_out], patterns, seen)
        for n, patterns in enumerate((PATTERNS, PATTERNS, UNSEEN_PATTERNS))
    )
    train = _draw(rng, size, days[3 * held_out :], PATTERNS, seen)
    return DatePairs(train, valid, test, unseen)


def date_files(pairs: DatePairs) -> dict[str, bytes]:
    """Return the contents of two line-aligned files for each set, by name: `train.en` and so on."""
    sets = {
        "train": pairs.train,
        "valid": pairs.valid,
        "test": pairs.test,
        "unseen": pairs.unseen_patterns,
    }
    return {
        f"{name}.{language}": "".join(f"{pair[side]}\n" for pair in part).encode()
        for name, part in sets.items()
        for side, language in enumerate(("en", "de"))
    }


def write_date(day: date, pattern: DatePattern) -> Pair:
    """Return a day in the English and the German form of a pattern."""
    return (
        _format(day, f"en_{pattern.country}", pattern.english),
        _format(day, "de_DE", pattern.german),
    )


def _draw(
    rng: random.Random,
    count: int,
    days: list[date],
    patterns: tuple[DatePattern, ...],
    seen: set[str],
) -> list[Pair]:
    """Return `count` new pairs and add their English lines to `seen`."""
    pairs: list[Pair] = []
    while len(pairs) < count:
        source, target = write_date(rng.choice(days), rng.choice(patterns))
        if source not in seen:
            seen.add(source)
            pairs.append((source, target))
    return pairs


def _format(day: date, locale: str, form: str) -> str:
    """Return `day` in the CLDR format or skeleton `form` of `locale`."""
    try:
        from babel import Locale
        from babel.dates import format_date
    except ImportError:
        raise UserError(
            "Babel, which writes the dates of the quickstart, is not installed: "
            "pip install 'crosshead[quickstart]'"
        ) from None
    rules = Locale.parse(locale)
    forms = rules.date_formats if form in rules.date_formats else rules.datetime_skeletons
    return format_date(day, str(forms[form]), locale=rules)
