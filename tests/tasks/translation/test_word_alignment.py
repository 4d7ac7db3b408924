import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.tasks.translation.translator import Translator
from crosshead.tasks.translation.word_alignment import (
    Gold,
    alignments,
    check_gold,
    error_rate,
    pharaoh,
    read_gold,
    symmetrised,
)
from tests.inspection.pipelines import pipeline_of


def test_links_of_both_directions_and_their_neighbours() -> None:
    weights = np.array(
        [
            [0.9, 0.1, 0.0, 0.0],
            [0.1, 0.2, 0.7, 0.0],  # the target word 1 translates the source words 1 and 2
            [0.0, 0.1, 0.0, 0.9],
        ]
    )
    assert symmetrised(weights, "intersection") == {(0, 0), (2, 1), (3, 2)}
    assert symmetrised(weights, "grow-diag") == {(0, 0), (1, 1), (2, 1), (3, 2)}
    assert symmetrised(np.zeros((0, 3)), "grow-diag") == set()


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))
def test_links_grow_one_after_another(targets: int, sources: int, seed: int) -> None:
    """Koehn's procedure, point by point: a word that has got a link is no longer free."""
    weights = np.random.default_rng(seed).random((targets, sources))
    forward = {(int(weights[t].argmax()), t) for t in range(targets)}
    backward = {(s, int(weights[:, s].argmax())) for s in range(sources)}
    expected, size = forward & backward, -1
    while size != len(expected):
        size = len(expected)
        for t, s in itertools.product(range(targets), range(sources)):
            if (s, t) not in expected:
                continue
            for dt, ds in [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]:
                new = (s + ds, t + dt)
                taken = {a for a, _ in expected}, {b for _, b in expected}
                if new in forward | backward and (new[0] not in taken[0] or new[1] not in taken[1]):
                    expected = expected | {new}
    assert symmetrised(weights, "grow-diag") == expected


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))
def test_grown_links_are_between_the_intersection_and_the_union(
    targets: int, sources: int, seed: int
) -> None:
    weights = np.random.default_rng(seed).random((targets, sources))
    both = symmetrised(weights, "intersection")
    grown = symmetrised(weights, "grow-diag")
    forward = {(int(weights[t].argmax()), t) for t in range(targets)}
    backward = {(s, int(weights[:, s].argmax())) for s in range(sources)}
    assert both == forward & backward and both <= grown <= forward | backward
    for s, t in grown - both:
        assert any((s + i, t + j) in grown for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)


@pytest.mark.parametrize("name", ["transformer", "convolutional", "no attention"])
def test_the_words_of_a_text_are_linked_by_the_weights_of_their_tokens(name: str) -> None:
    translator = pipeline_of(name)
    assert isinstance(translator, Translator)
    pairs = [("to  be or", "that is"), ("be", "be"), ("", "to be"), ("to be", "")]
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    found = list(alignments(translator, sources, targets, "grow-diag"))
    assert found[1:] == [{(0, 0)}, set(), set()]
    words = np.zeros((2, 3))
    [(_, ids)] = [
        (source, target) for source, target in translator.examples(["to be or"], ["that is"])
    ]
    weights = translator.alignments.of(translator.examples(["to be or"], ["that is"]))[0]
    owners = [[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1]]  # a space belongs to the next word
    assert weights.shape == (len(owners[1]), len(owners[0])) and len(ids) == len(owners[1])
    np.add.at(words, np.ix_(owners[1], owners[0]), weights)
    assert found[0] == symmetrised(words, "grow-diag")


def test_the_error_rate_counts_sure_and_possible_links() -> None:
    gold = read_gold(["0-0 1?1 2-1", ""], "gold")
    assert gold[0] == Gold({(0, 0), (2, 1)}, {(0, 0), (1, 1), (2, 1)})
    assert error_rate([{(0, 0), (2, 1)}, set()], gold) == 0
    assert error_rate([{(0, 0), (2, 1), (1, 1)}, set()], gold) == 0
    assert error_rate([{(0, 0), (3, 1)}, set()], gold) == pytest.approx(1 - (1 + 1) / (2 + 2))
    assert error_rate([set(), set()], gold) == 1
    assert error_rate([set(), set()], [Gold(set(), set())] * 2) == 0
    with pytest.raises(DataError, match=r"gold:2: expected links such as 0-0 or 1\?2, found '0:0'"):
        read_gold(["0-0", "0:0"], "gold")


def test_links_are_written_in_the_form_that_is_read() -> None:
    random.seed(1)
    links = {(random.randrange(20), random.randrange(20)) for _ in range(30)}
    assert read_gold([pharaoh(links)], "x") == [Gold(links, links)]


def test_invisible_characters_are_no_tokens() -> None:
    translator = pipeline_of("transformer")
    assert isinstance(translator, Translator)
    plain = list(alignments(translator, ["to be or"], ["that is"], "grow-diag"))
    hidden = ["to\u200b be or", "to \ufeff be or"]
    found = list(alignments(translator, hidden, ["that is"] * 2, "grow-diag"))
    assert found[0] == plain[0] and len(found[1]) >= 1


def test_right_links_outside_of_the_pair_are_refused() -> None:
    gold = read_gold(["0-0", "9-9 1-1"], "gold")
    with pytest.raises(DataError, match="gold:2: the link 9-9 is outside of the pair"):
        check_gold(gold, ["a", "a b"], ["c", "c d"], "gold")
    check_gold(gold[:1], ["a"], ["c"], "gold")
