"""Pairs with exchanged sides: the source is in the language of the targets, and the reverse.

If many pairs are exchanged, both sides of the text hold the same two languages, and neither side
has a language of its own. So each pair is read in one of its two directions, and the n-grams of all
sides in one language are counted together. The direction of a pair is the one that fits the others,
in turns until no pair changes.
"""

from collections.abc import Sequence

import numpy as np

from crosshead.addons.checks.language import LEAST_GROUP, MARGIN
from crosshead.addons.checks.ngrams import (
    LEAST_NGRAMS,
    NGrams,
    has_enough,
    letters_of,
    log_share,
    ngrams,
)
from crosshead.addons.checks.suspects import Suspect

_ROUNDS = 20
_LEAST_CLEAR = 0.5
"""The smallest share of pairs that are clearly exchanged among those that fit better exchanged. It
is near 0 if both sides have the same language."""


def exchanged(source: Sequence[str], target: Sequence[str]) -> list[Suspect] | None:
    """Return the pairs with exchanged sides, at most half of the text.

    The score approaches 1 with the mean log-odds of the n-grams of the less clear side.
    """
    letters = [
        (letters_of(left), letters_of(right)) for left, right in zip(source, target, strict=True)
    ]
    unique = {pair: number for number, pair in enumerate(dict.fromkeys(letters))}
    lefts, rights = [left for left, _ in unique], [right for _, right in unique]
    left, right = ngrams(lefts), ngrams(rights)
    judged = (left.lengths >= LEAST_NGRAMS) & (right.lengths >= LEAST_NGRAMS)
    if not has_enough(lefts, judged) or not has_enough(rights, judged):
        return None
    swap = np.zeros(len(unique), bool)
    for _ in range(_ROUNDS):
        odds = _odds(left, right, swap)
        before, swap = swap, judged & (odds[1] > odds[0])
        if (swap == before).all():
            break
    if 2 * swap.sum() > judged.sum():
        swap, odds = judged & ~swap, odds[::-1]
    clear = np.minimum(-odds[0], odds[1])
    found = swap & (clear > MARGIN)
    if found.sum() < max(LEAST_GROUP, _LEAST_CLEAR * swap.sum()):
        return []
    return [
        Suspect(
            row, "exchanged", float(1 - np.exp(-clear[unique[pair]])),
            "each side is in the language of the opposite side",
        )
        for row, pair in enumerate(letters)
        if found[unique[pair]]
    ]  # fmt: skip


def _odds(left: NGrams, right: NGrams, swap: np.ndarray) -> np.ndarray:
    """Return the mean log-odds of both sides of each pair for the first language, "2 N"."""
    first = left.histogram(~swap) + right.histogram(swap)
    second = right.histogram(~swap) + left.histogram(swap)
    values = log_share(first) - log_share(second)
    return np.stack([left.means(values), right.means(values)])
