"""Pairs whose sides do not translate each other, one by one and in shifted stretches.

Each pair has odds to be misaligned (`pair_odds.py`). A hidden Markov model then takes neighbours
into account, because a line that is missing on one side shifts all lines after it: the neighbours
of a misaligned pair are probably misaligned too, and by the same shift.

Shifted pairs teach the lexicon wrong translations. So if stretches are shifted, or the text as a
whole, the lexicon is learned again from the repaired pairs, and all pairs are scored again.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from crosshead.addons.checks.pair_odds import PairOdds, SideWords, stemmed_words
from crosshead.addons.checks.suspects import Suspect

LEAST_ROWS = 500
"""The smallest number of pairs from which word translations can be learned."""

APART = "the sides do not translate each other"
"""The reason for a misaligned pair outside of shifted stretches."""

_LEAST_COUNT = 3
"""The smallest number of times that a word occurs. Rarer words say nothing about alignment."""
_SHIFTS = (-1, 1, -2, 2, -3, 3)
SHORTEST_STRETCH, _GAP = 4, 3
"""The smallest number of rows of a stretch, and the largest distance between two of them."""
_UNFIT = -4.0
"""The smallest log-odds that a row of a stretch contributes, because a stretch may contain
misaligned pairs."""
_MOST_REPAIRS = 2
"""The largest number of times that the lexicon is learned again from repaired pairs."""
_MOST_TRIED = 3_000
"""The largest number of pairs by which shifts of the whole text are compared."""
MOST_MISALIGNED = 0.2
"""The share of misaligned pairs from which the sides probably do not belong together. Clean
Multi30k has an estimated share of 0.001, even if there are only 500 pairs to learn from. With 10 %
of random pairs it is 0.06 to 0.1."""
_CLEARLY_LESS = 0.25
"""The difference of the misaligned share from which another shift of the whole text is better. The
shares of random pairs differ by 0.1 between shifts at most."""
_LARGEST_ODDS = 8.0
"""The largest log-odds that one row contributes, because no model of a row is perfect."""
_BEGIN, _STAY = 1e-4, 0.98
"""The probabilities that a stretch of misaligned pairs begins at a row, and that it continues."""


class Alignment(NamedTuple):
    """The misaligned pairs of a text, and their share."""

    suspects: list[Suspect]
    share: float
    """The estimated share of misaligned pairs. It includes pairs that cannot be told one by one."""


def misaligned(source: Sequence[str], target: Sequence[str], rows: np.ndarray) -> Alignment:
    """Return the pairs whose sides probably do not translate each other.

    The score of a pair is the probability that its sides do not belong together.
    """
    if len(rows) < LEAST_ROWS:
        return Alignment([], 0.0)
    sides = SideWords(
        *(stemmed_words((side[row] for row in rows), _LEAST_COUNT) for side in (source, target))
    )
    probability, share, shifts = _judged(sides, rows)
    suspects = [
        Suspect(
            int(rows[place]),
            "misaligned",
            float(probability[place]),
            shift_reason(int(shifts[place])),
            int(shifts[place]),
        )
        for place in np.flatnonzero(probability > 0.5)
    ]
    return Alignment(suspects, share)


def _judged(sides: SideWords, rows: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the probability of each row to be misaligned, the share of these, and all shifts."""
    unshifted = shifts = np.zeros(len(rows), np.int8)
    model, odds, share = as_given = _learned(sides, rows, unshifted)
    if share > MOST_MISALIGNED and (shift := _whole_shift(sides, rows)):
        shifts = unshifted + shift
        model, odds, share = _learned(sides, rows, shifts)
    for repairs in range(_MOST_REPAIRS + 1):
        probability = smoothed(odds, share)
        found = np.flatnonzero(probability > 0.5)
        before, shifts = shifts, _shifts(model, rows, found, odds)
        if share > MOST_MISALIGNED and not _repair_most(model, rows, shifts, found):
            # Of unrelated lines, some neighbours fit by chance. A lexicon that is learned from them
            # would find more of them.
            _, odds, share = as_given
            return smoothed(odds, share), share, unshifted
        if repairs == _MOST_REPAIRS or (shifts == before).all():
            break
        model, odds, share = _learned(sides, rows, shifts)
    return probability, share, shifts


def _learned(
    sides: SideWords, rows: np.ndarray, shifts: np.ndarray
) -> tuple[PairOdds, np.ndarray, float]:
    """Learn from the pairs after the shifts are repaired, and judge the pairs as they are."""
    places = np.arange(len(rows), dtype=np.int32)
    left = _moved(rows, places, shifts)
    model = PairOdds(sides, left[left >= 0], places[left >= 0])
    return model, *model.judged(places, places)


def _repair_most(model: PairOdds, rows: np.ndarray, shifts: np.ndarray, found: np.ndarray) -> bool:
    """Return whether the shifts repair at least half of the misaligned pairs, the found places."""
    places = np.flatnonzero(shifts)
    left = _moved(rows, places, shifts[places])
    places, left = places[left >= 0], left[left >= 0]
    if not len(places):
        return False
    _, still = model.judged(left, places)
    return 2 * (1 - still) * len(places) >= len(found)


def _moved(rows: np.ndarray, places: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    """Return the place of the row that is `shift` rows below each place, or -1 for none."""
    wanted = rows[places] + shift
    found = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[found] == wanted, found, -1).astype(np.int32)


def _whole_shift(sides: SideWords, rows: np.ndarray) -> int:
    """Return the shift that repairs most pairs of the text, or 0."""
    tried = np.arange(len(rows))[:: len(rows) // _MOST_TRIED + 1]
    shares = {}
    for shift in (0, *_SHIFTS):
        left = _moved(rows, tried, shift)
        left, right = left[left >= 0], tried[left >= 0]
        shares[shift] = PairOdds(sides, left, right).judged(left, right)[1]
    best = min(shares, key=lambda shift: shares[shift])
    return best if shares[best] < shares[0] - _CLEARLY_LESS else 0


def _shifts(model: PairOdds, rows: np.ndarray, found: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """Return the shift of each place: 0, or the one that repairs the stretch of a found place."""
    runs = np.split(found, np.flatnonzero(np.diff(found) > _GAP) + 1)
    runs = [run for run in runs if len(run) >= SHORTEST_STRETCH]
    shifts = np.zeros(len(odds), np.int8)
    if not runs:
        return shifts
    long = np.concatenate(runs)
    evidence = np.zeros((len(odds), len(_SHIFTS) + 1))
    evidence[long, 0] = np.clip(-odds[long], 0, _LARGEST_ODDS)
    for state, shift in enumerate(_SHIFTS, 1):
        left = _moved(rows, long, shift)
        places, left = long[left >= 0], left[left >= 0]
        evidence[places, state] = np.clip(-model.judged(left, places)[0], _UNFIT, _LARGEST_ODDS)
    states = (0, *_SHIFTS)
    for run in runs:
        path = best_path(evidence[run])
        for part in np.split(np.arange(len(run)), np.flatnonzero(np.diff(path)) + 1):
            if len(part) >= SHORTEST_STRETCH:
                shifts[run[part]] = states[path[part[0]]]
    return shifts


def shift_reason(shift: int) -> str:
    """Return the reason for a misaligned pair in a stretch with a shift, or 0 for none."""
    if not shift:
        return APART
    where = "below" if shift > 0 else "above"
    lines = "line" if abs(shift) == 1 else "lines"
    return f"the target translates the source {abs(shift)} {lines} {where}"


def smoothed(odds: np.ndarray, share: float) -> np.ndarray:
    """Return the probability of each row to be misaligned, given all rows.

    The states of a row are aligned, misaligned alone, and misaligned in a stretch. A forward and a
    backward pass sum over the states of all other rows.

    Reference:
        Rabiner 1989, "A Tutorial on Hidden Markov Models", section III.
    """
    alone = min(share, 0.5)
    outside = 1 - alone - _BEGIN, alone, _BEGIN
    inside = (1 - _STAY) * (1 - alone), (1 - _STAY) * alone, _STAY
    likelihood = array("d", np.exp(np.clip(odds, -_LARGEST_ODDS, _LARGEST_ODDS)).tobytes())
    earlier, in_stretch = array("d"), 0.0  # the probability of a stretch, given all earlier rows

    def predicted(in_stretch: float) -> Iterator[float]:
        # Transitions do not depend on whether a row outside of stretches is aligned.
        return ((1 - in_stretch) * p + in_stretch * q for p, q in zip(outside, inside, strict=True))

    for each in likelihood:
        earlier.append(in_stretch)
        a, b, c = predicted(in_stretch)
        in_stretch = c * each / (a + (b + c) * each)
    probability = np.empty(len(likelihood))
    out = in_stretch = 1.0  # the likelihood of all later rows, by the state of this row
    for place in reversed(range(len(likelihood))):
        each = likelihood[place]
        a, b, c = predicted(earlier[place])
        probability[place] = 1 - a * out / ((a + b * each) * out + c * each * in_stretch)
        later = out, out * each, in_stretch * each
        before = [sum(p * q for p, q in zip(row, later, strict=True)) for row in (outside, inside)]
        out, in_stretch = (value / sum(before) for value in before)
    return probability


def best_path(evidence: np.ndarray) -> np.ndarray:
    """Return the most probable state of each row, by the Viterbi algorithm.

    State 0 is no shift, and the text begins and ends with it. A change of the state has the
    probability `_BEGIN`.
    """
    change = np.log(_BEGIN)
    score = np.full(evidence.shape[1], change)
    score[0] = 0.0
    came = np.empty(evidence.shape, np.int64)
    for row, each in enumerate(evidence):
        best = int(np.argmax(score))
        stays = score >= score[best] + change
        came[row] = np.where(stays, np.arange(len(score)), best)
        score = np.where(stays, score, score[best] + change) + each
    score[1:] += change
    path = np.empty(len(evidence), np.int64)
    state = int(np.argmax(score))
    for row in range(len(evidence) - 1, -1, -1):
        path[row] = state
        state = int(came[row, state])
    return path
