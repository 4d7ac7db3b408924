"""Pairs with a number that differs between the sides."""

from collections.abc import Sequence

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.signs import loses_number, numbers

_MOST = 0.2
"""If a larger share of the pairs with numbers have a number that differs, the two languages write
numbers differently, as in dates of other calendars."""


def changed_numbers(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs with equally many numbers on both sides, but not the same numbers.

    Numbers of one digit do not count. Pairs with more numbers on one side do not count either: the
    opposite side may have words for them, such as the name of a month.
    """
    pairs = zip(source, target, strict=True)
    counts = [tuple(len(numbers(line)) for line in pair) for pair in pairs]
    rows = [row for row, (left, right) in enumerate(counts) if left == right > 0]
    changed = [
        row for row in rows
        if loses_number(source[row], target[row]) or loses_number(target[row], source[row])
    ]  # fmt: skip
    if len(changed) > _MOST * len(rows):
        return []
    return [
        Suspect(row, "number", 1 - len(changed) / len(rows), "a number differs between the sides")
        for row in changed
    ]
