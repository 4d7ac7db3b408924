"""Pairs whose lengths do not fit together.

The logarithm of the ratio of lengths is fitted by a Laplace distribution, whose tails are those of
translations. Its scale depends on the length, because short sentences vary more.
"""

from collections.abc import Sequence

import numpy as np

from crosshead.data.checks.suspects import Suspect

_LEAST_ROWS = 100
_MOST_SCALES = 12.0
"""The distance from the usual ratio, in scales, from which a pair is suspect. In a Laplace
distribution six pairs of a million are as far away."""
_LEAST_FACTOR = 1.5
"""A pair is suspect only if its ratio is this many times the usual ratio, or more."""


def odd_lengths(source: Sequence[str], target: Sequence[str]) -> list[Suspect]:
    """Return the pairs whose ratio of lengths is far from the usual ratio.

    The score approaches 1 with the distance.

    Args:
        source: All sources.
        target: All targets.
    """
    lengths = np.array([[len(side.strip()) for side in source], [len(s.strip()) for s in target]])
    rows = np.flatnonzero(lengths.min(0) > 0) if len(source) else np.zeros(0, int)
    if len(rows) < _LEAST_ROWS:
        return []
    left, right = lengths[:, rows]
    distance = np.log(right / left)
    centre = float(np.median(distance))
    distance -= centre
    # The scale is a + b / sqrt(length), by least squares of the absolute distances.
    size = 1 / np.sqrt(np.minimum(left, right))
    shape = np.stack([np.ones(len(rows)), size], axis=1)
    capped = np.minimum(np.abs(distance), np.quantile(np.abs(distance), 0.99))
    fitted = np.linalg.lstsq(shape, capped, rcond=None)[0]
    scales = np.abs(distance) / np.maximum(shape @ fitted, 0.02)
    far = (scales > _MOST_SCALES) & (np.abs(distance) > np.log(_LEAST_FACTOR))
    return [
        Suspect(
            int(rows[place]),
            "length",
            float(1 - _MOST_SCALES / (2 * scales[place])),
            f"{left[place]:,} and {right[place]:,} characters, usual are "
            f"{left[place]:,} and {round(left[place] * np.exp(centre)):,}",
        )
        for place in np.flatnonzero(far)
    ]
