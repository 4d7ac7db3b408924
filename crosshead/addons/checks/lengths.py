"""Pairs whose lengths or numbers do not fit together.

The distance of the lengths of a pair is |log(ratio) - log(usual ratio)|. The ratio is that of the
lengths of both sides. Short sentences vary more, so the distance is divided by a scale that falls
with the length. The tail of the distances is fitted by an exponential distribution. So freer
translations need larger distances.

Damaged pairs must not widen the fit that is to find them. So the fit begins with the pairs near the
median, and is repeated with the pairs inside its bound. It stays good with 20 % damaged pairs.
"""

from collections.abc import Sequence

import numpy as np

from crosshead.addons.checks.suspects import Suspect
from crosshead.text.profile import loses_number, numbers

LEAST_PAIRS = 100
"""The smallest number of pairs that the usual ratio of lengths is fitted to."""

_SCALE = 0.2
"""The scale of a pair is this number plus 1 / sqrt(length).

It is not fitted: damaged pairs look shorter or longer than they were, and would bend it.
"""
_NEAR = 4.0
"""The first fit is to the pairs within this many times the median distance."""
_FITS = 2
"""The number of fits. With more fits, many damaged pairs may widen the bound a little each time."""
_BULK, _TAIL = 0.5, 0.2
"""The tail is fitted through two distances; these are the shares of pairs beyond each."""
_RARE = 7e-4
"""The probability, by the fitted tail, below which a distance is suspect."""
_LEAST_FACTOR = 1.5
"""A pair is suspect only if its ratio is this many times the usual ratio, or more."""
_LEAST_CHARACTERS = 12
"""A pair is suspect only if it has more characters than this too many or too few.

In lines of two or three words, single words decide about the ratio.
"""

_MOST_CHANGED = 0.2
"""If a larger share of the pairs with numbers have a number that differs, the two languages write
numbers differently, as in dates of other calendars."""


def odd_lengths(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> list[Suspect]:
    """Return the pairs whose ratio of lengths is far from the usual ratio.

    The score approaches 1 with the distance.
    """
    if len(rows) < LEAST_PAIRS:
        return []
    left, right = (
        np.array([max(len(side[row].strip()), 1) for row in rows.tolist()])
        for side in (source, target)
    )
    near = np.full(len(rows), True)
    for fit in range(_FITS + 1):
        usual = float(np.exp(np.median(np.log(right / left)[near])))
        # Both lengths are counted in characters of the side that usually has more of them.
        one, other = left * max(usual, 1.0), right * max(1 / usual, 1.0)
        distance = np.abs(np.log(other / one))
        # The longer side tells the length: if a side is cut, the opposite side is not.
        scaled = distance / (_SCALE + 1 / np.sqrt(np.maximum(one, other)))
        bound = _NEAR * float(np.median(scaled)) if fit == 0 else _tail_bound(scaled[near])
        near = scaled <= bound
    far = ~near & (distance > np.log(_LEAST_FACTOR)) & (np.abs(one - other) > _LEAST_CHARACTERS)
    return [
        Suspect(
            int(rows[place]),
            "length",
            float(1 - bound / (2 * scaled[place])),
            f"{left[place]:,} and {right[place]:,} characters, usual are "
            f"{left[place]:,} and {round(left[place] * usual):,}",
        )
        for place in np.flatnonzero(far)
    ]


def _tail_bound(distances: np.ndarray) -> float:
    """Return the distance that an exponential tail exceeds with the probability `_RARE`."""
    inner, outer = np.quantile(distances, [1 - _BULK, 1 - _TAIL])
    return float(outer + (outer - inner) * np.log(_TAIL / _RARE) / np.log(_BULK / _TAIL))


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
    if len(changed) > _MOST_CHANGED * len(rows):
        return []
    return [
        Suspect(row, "number", 1 - len(changed) / len(rows), "a number differs between the sides")
        for row in changed
    ]
