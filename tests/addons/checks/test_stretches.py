import itertools
import math

import numpy as np
import pytest

from crosshead.addons.checks import stretches
from crosshead.addons.checks.stretches import best_path, smoothed


def test_the_smoothed_probability_is_that_of_all_sequences_of_states() -> None:
    odds, share = np.array([-1.0, 2.0, 3.0, -0.5, 1.0]), 0.1
    begin, stay = stretches._BEGIN, stretches._STAY
    outside = [1 - share - begin, share, begin]
    inside = [(1 - stay) * (1 - share), (1 - stay) * share, stay]
    transitions = [outside, outside, inside]
    weight = np.zeros((len(odds), 2))
    for states in itertools.product(range(3), repeat=len(odds)):
        each, before = 1.0, 0
        for place, state in enumerate(states):
            each *= transitions[before][state] * (math.exp(odds[place]) if state else 1.0)
            before = state
        for place, state in enumerate(states):
            weight[place, int(state > 0)] += each
    expected = weight[:, 1] / weight.sum(1)
    np.testing.assert_allclose(smoothed(odds, share), expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_path_is_the_best_of_all_paths(seed: int) -> None:
    evidence = np.random.default_rng(seed).normal(0, 12, (5, 3))
    change = math.log(stretches._BEGIN)

    def score(path: tuple[int, ...]) -> float:
        around = (0, *path, 0)
        changes = sum(a != b for a, b in itertools.pairwise(around))
        return change * changes + sum(evidence[row, state] for row, state in enumerate(path))

    expected = max(itertools.product(range(3), repeat=5), key=score)
    assert tuple(best_path(evidence).tolist()) == expected
