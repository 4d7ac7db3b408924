"""Minimum Bayes risk: identities, a plain double loop, and a case computed by hand."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.decoding.minimum_risk import MinimumRisk, rank_by_utility
from crosshead.errors import ConfigError
from crosshead.evaluation.sacrebleu_metrics import chrf_utility

SAMPLES = st.lists(st.text(alphabet="ab ", max_size=5), min_size=1, max_size=8)


def common_letters(candidate: str, reference: str) -> float:
    """The share of the candidate's letters that the reference has; not symmetric."""
    return sum((Counter(candidate) & Counter(reference)).values()) / max(len(candidate), 1)


@given(SAMPLES)
def test_the_ranking_is_that_of_a_plain_double_loop(samples: list[str]) -> None:
    means = []
    for candidate in samples:
        total = 0.0
        for reference in samples:
            total += common_letters(candidate, reference)
        means.append(total / len(samples))
    ranked = rank_by_utility(samples, [1] * len(samples), common_letters)
    assert sorted(each.place for each in ranked) == list(range(len(samples)))
    assert [each.utility for each in ranked] == pytest.approx(sorted(means, reverse=True))
    for index, utility in ranked:
        assert utility == pytest.approx(means[index])


@given(SAMPLES)
def test_a_repeated_sample_counts_as_often_as_it_was_drawn(samples: list[str]) -> None:
    counts = Counter(samples)
    texts = list(counts)
    merged = rank_by_utility(texts, list(counts.values()), common_letters)
    [best, *_] = rank_by_utility(samples, [1] * len(samples), common_letters)
    assert merged[0].utility == pytest.approx(best.utility)
    scaled = rank_by_utility(texts, [3 * count for count in counts.values()], common_letters)
    assert [each.utility for each in scaled] == pytest.approx([each.utility for each in merged])


@given(SAMPLES, st.randoms())
def test_the_order_of_the_candidates_changes_ties_alone(
    samples: list[str], rng: random.Random
) -> None:
    counts = list(Counter(samples).items())
    shuffled = rng.sample(counts, len(counts))
    found = [
        [(texts[index], value) for index, value in rank_by_utility(texts, weights, chrf_utility)]
        for texts, weights in (zip(*each, strict=True) for each in (counts, shuffled))
    ]
    assert sorted(found[0]) == sorted(found[1])  # to the bit
    assert [value for _, value in found[0]] == [value for _, value in found[1]]


def test_the_first_of_equally_good_candidates_comes_first() -> None:
    ranked = rank_by_utility(["a", "b", "c"], [1, 1, 1], lambda one, other: float(one == other))
    assert [each.place for each in ranked] == [0, 1, 2]
    assert {each.utility for each in ranked} == {1 / 3}


def test_a_case_computed_by_hand() -> None:
    """The candidate is in the first argument: a table of utilities that is not symmetric.

    x: (2 * 1.0 + 1 * 0.0 + 1 * 0.2) / 4 = 0.55
    y: (2 * 0.5 + 1 * 1.0 + 1 * 0.8) / 4 = 0.7
    z: (2 * 0.1 + 1 * 0.4 + 1 * 1.0) / 4 = 0.4
    """
    table = {
        "xx": 1.0, "xy": 0.0, "xz": 0.2, "yx": 0.5, "yy": 1.0, "yz": 0.8, "zx": 0.1, "zy": 0.4,
        "zz": 1.0,
    }  # fmt: skip
    ranked = rank_by_utility(["x", "y", "z"], [2, 1, 1], lambda one, other: table[one + other])
    assert [each.place for each in ranked] == [1, 0, 2]
    assert [each.utility for each in ranked] == pytest.approx([0.7, 0.55, 0.4])


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="samples: expected 1 or more, found 0; draw 32 or more"):
        MinimumRisk(0, chrf_utility)
    with pytest.raises(ValueError, match="shorter"):
        rank_by_utility(["a", "b"], [1], chrf_utility)
    assert rank_by_utility([], [], chrf_utility) == []
