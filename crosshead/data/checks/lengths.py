"""Pairs whose lengths do not fit together.

The distance of a pair is |log(ratio) - log(usual ratio)|. The ratio is that of the lengths of both
sides. Short sentences vary more, so the distance is divided by a scale that depends on the length.
The tail of the distances is fitted by an exponential distribution. So freer translations need
larger distances.

The largest distances have little influence on the fit. So it stays good with 5 % damaged pairs.
"""

from collections.abc import Sequence

import numpy as np

from crosshead.data.checks.suspects import Suspect

LEAST_PAIRS = 100
"""The smallest number of pairs that the usual ratio of lengths is fitted to."""

_BULK, _TAIL = 0.5, 0.2
"""The shares of pairs beyond the two distances that the tail is fitted through."""
_CAPPED = 0.1
"""The share of pairs whose distances are capped while the scale is fitted."""
_RARE = 1e-3
"""The probability, by the fitted tail, below which a distance is suspect."""
_LEAST_FACTOR = 1.5
"""A pair is suspect only if its ratio is this many times the usual ratio, or more."""


def odd_lengths(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> list[Suspect]:
    """Return the pairs whose ratio of lengths is far from the usual ratio.

    The score approaches 1 with the distance.

    Args:
        source: All sources.
        target: All targets.
        rows: The rows to judge. Other rows were already reported by other checks.

    Returns:
        The suspect pairs. The list is empty if there are fewer than `LEAST_PAIRS` rows to judge.
    """
    if len(rows) < LEAST_PAIRS:
        return []
    left, right = (
        np.array([max(len(side[row].strip()), 1) for row in rows.tolist()])
        for side in (source, target)
    )
    distance = np.log(right / left)
    centre = float(np.median(distance))
    distance -= centre
    # The scale is a + b / sqrt(length), by least squares of the absolute distances. The length is
    # the mean of both sides: with the shorter one, cut sides alone would have a large scale.
    size = 1 / np.sqrt((left + right / np.exp(centre)) / 2)
    shape = np.stack([np.ones(len(rows)), size], axis=1)
    capped = np.minimum(np.abs(distance), np.quantile(np.abs(distance), 1 - _CAPPED))
    fitted = np.linalg.lstsq(shape, capped, rcond=None)[0]
    scales = np.abs(distance) / np.maximum(shape @ fitted, 0.02)
    inner, outer = np.quantile(scales, [1 - _BULK, 1 - _TAIL])
    bound = outer + (outer - inner) * np.log(_TAIL / _RARE) / np.log(_BULK / _TAIL)
    far = (scales > bound) & (np.abs(distance) > np.log(_LEAST_FACTOR))
    return [
        Suspect(
            int(rows[place]),
            "length",
            float(1 - bound / (2 * scales[place])),
            f"{left[place]:,} and {right[place]:,} characters, usual are "
            f"{left[place]:,} and {round(left[place] * np.exp(centre)):,}",
        )
        for place in np.flatnonzero(far)
    ]
