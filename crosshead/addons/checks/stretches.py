"""Stretches of misaligned pairs: the rows of a text as a hidden Markov model.

A line that is missing on one side shifts all lines after it. So the neighbours of a misaligned pair
are probably misaligned too, and by the same shift.
"""

import numpy as np

LARGEST_ODDS = 8.0
"""The largest log-odds that one row contributes, because no model of a row is perfect."""
_BEGIN, _STAY = 1e-4, 0.98
"""The probabilities that a stretch of misaligned pairs begins at a row, and that it continues."""


def smoothed(odds: np.ndarray, share: float) -> np.ndarray:
    """Return the probability of each row to be misaligned, given all rows.

    The states of a row are aligned, misaligned alone, and misaligned in a stretch. A forward and a
    backward pass sum over the states of all other rows.

    Reference:
        Rabiner 1989, "A Tutorial on Hidden Markov Models", section III.
    """
    likelihood = np.exp(np.clip(odds, -LARGEST_ODDS, LARGEST_ODDS)).tolist()
    alone = min(share, 0.5)
    outside = 1 - alone - _BEGIN, alone, _BEGIN
    inside = (1 - _STAY) * (1 - alone), (1 - _STAY) * alone, _STAY
    # Transitions do not depend on whether a row outside of stretches is aligned.
    states, forward = outside, []
    for each in likelihood:
        a, b, c = states[0], states[1] * each, states[2] * each
        total = a + b + c
        forward.append((a / total, b / total, c / total))
        out, in_stretch = (a + b) / total, c / total
        states = (
            out * outside[0] + in_stretch * inside[0],
            out * outside[1] + in_stretch * inside[1],
            out * outside[2] + in_stretch * inside[2],
        )
    probability = np.empty(len(likelihood))
    out = in_stretch = 1.0  # the likelihood of all later rows, by the state of this row
    for place in range(len(likelihood) - 1, -1, -1):
        a, b, c = forward[place]
        a, b, c = a * out, b * out, c * in_stretch
        probability[place] = (b + c) / (a + b + c)
        each = likelihood[place]
        later = out, out * each, in_stretch * each
        out = sum(p * q for p, q in zip(outside, later, strict=True))
        in_stretch = sum(p * q for p, q in zip(inside, later, strict=True))
        total = out + in_stretch
        out, in_stretch = out / total, in_stretch / total
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
