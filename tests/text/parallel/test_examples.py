import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.text.batching import collate, example_lengths, plan_batches
from crosshead.text.parallel.examples import (
    Chosen,
    Example,
    Examples,
    Sampled,
    Side,
    measure_growth,
    mixture,
    sampled_segmentation,
)
from crosshead.text.subwords import BpeTokenizer
from crosshead.text.tokenizers import train_model

IDS = st.lists(st.integers(4, 99), max_size=7)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=9)
LINES = [f"lower newest widest {'lower ' * (n % 7)}x{n}" for n in range(60)]


@pytest.fixture(scope="module")
def tokenizer() -> BpeTokenizer:
    return BpeTokenizer(train_model("bpe", LINES, 300, []), [], 0.4)


@pytest.fixture(scope="module")
def usual(tokenizer: BpeTokenizer) -> Examples:
    ids = tokenizer.encode_lines(LINES)
    return Examples.of(zip(ids, ids[::-1], strict=True))


@given(pairs=PAIRS)
def test_flat_arrays_hold_what_a_list_holds(pairs: list[Example]) -> None:
    examples = Examples.of(pairs)
    assert list(examples) == pairs
    assert examples[1:5:2] == pairs[1:5:2]
    assert np.array_equal(example_lengths(examples), example_lengths(pairs))
    for row in (len(pairs), -len(pairs) - 1):
        with pytest.raises(IndexError):
            examples[row]
    if pairs:
        assert examples[-1] == pairs[-1]


@given(pairs=st.lists(st.tuples(IDS, IDS), min_size=1, max_size=9))
def test_batches_of_flat_arrays_are_those_of_a_list(pairs: list[Example]) -> None:
    examples = Examples.of(pairs)
    plans = [plan_batches(example_lengths(each), 20, 1, 2) for each in (examples, pairs)]
    for ours, theirs in zip(*plans, strict=True):
        assert np.array_equal(ours, theirs)
        one, two = collate(examples, ours.tolist()), collate(pairs, theirs.tolist())
        assert one.source.equal(two.source) and one.target_output.equal(two.target_output)


def test_pairs_that_others_have_too_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)

    def ids() -> list[int]:
        return [rng.randrange(5) for _ in range(rng.randrange(5))]

    pairs: list[Example] = [(ids(), ids()) for _ in range(4000)]
    seen = {(tuple(source), tuple(target)) for source, target in pairs[1000:]}
    expected = sum((tuple(source), tuple(target)) in seen for source, target in pairs[:2000])
    own, others = Examples.of(pairs[:2000]), Examples.of(pairs[1000:])
    assert 1000 < own.count_in(others) == expected < 2000
    monkeypatch.setattr("crosshead.text.parallel.examples._AT_ONCE", 100)
    assert own.count_in(others) == expected


def test_the_checksum_is_of_ids_and_ends_in_any_type() -> None:
    pairs: list[Example] = [([5, 6], [7]), ([8], [9, 10])]
    examples = Examples.of(pairs)
    narrow = Examples(
        *(
            Side(side.ids.astype(np.uint16), side.ends)
            for side in (examples.source, examples.target)
        )
    )
    assert narrow.sha256() == examples.sha256()
    others: list[list[Example]] = [
        pairs[::-1],
        pairs[:1],
        [([5], [7]), ([6, 8], [9, 10])],
        [([5, 6], [7]), ([8], [9, 11])],
        [([7], [5, 6]), ([9, 10], [8])],
    ]
    assert len({Examples.of(each).sha256() for each in [pairs, *others]}) == 6


@given(
    corpora=st.lists(st.tuples(st.integers(0, 20), st.floats(0.1, 3)), min_size=1, max_size=4),
    seed=st.integers(0, 3),
)
def test_a_mixture_takes_of_each_corpus_what_its_weight_says(
    corpora: list[tuple[int, float]], seed: int
) -> None:
    counts, weights = [count for count, _ in corpora], [weight for _, weight in corpora]
    totals = [round(weight * count) for count, weight in corpora]
    if not sum(totals):
        with pytest.raises(DataError, match=r"data\.weights .* no pair"):
            mixture(counts, weights, seed, 0)
        return
    rows = mixture(counts, weights, seed, 5)
    assert np.array_equal(rows, mixture(counts, weights, seed, 5))
    first = 0
    for count, total in zip(counts, totals, strict=True):
        times = np.bincount(rows[(rows >= first) & (rows < first + count)] - first, minlength=count)
        assert times.sum() == total
        if count:
            assert set(times.tolist()) <= {total // count, -(-total // count)}
        first += count


def test_the_rest_of_a_mixture_is_drawn_by_seed_and_epoch() -> None:
    drawn = [mixture([1000], [0.5], seed, epoch) for seed, epoch in ((1, 1), (1, 2), (2, 1))]
    assert len({each.tobytes() for each in drawn}) == 3
    assert np.array_equal(mixture([3, 2], [1.0, 2.0], 1, 1), [0, 1, 2, 3, 4, 3, 4])


def test_chosen_examples_are_those_of_the_rows(usual: Examples) -> None:
    chosen = Chosen(usual, np.array([4, 4, 0]))
    assert list(chosen) == [usual[4], usual[4], usual[0]]
    assert np.array_equal(chosen.lengths, usual.lengths[[4, 4, 0]])


def sampled(usual: Examples, tokenizer: BpeTokenizer, seed: int, epoch: int) -> Sampled:
    both = tokenizer, tokenizer
    room = measure_growth(usual, sampled_segmentation(both), seed).room(usual.lengths, 1000)
    return Sampled(usual, both, seed, epoch, room)


def test_a_sampled_pair_is_a_function_of_seed_epoch_and_place(
    usual: Examples, tokenizer: BpeTokenizer
) -> None:
    first = list(sampled(usual, tokenizer, 1, 2))
    backwards = sampled(usual, tokenizer, 1, 2)
    assert [backwards[row] for row in range(len(usual))[::-1]] == first[::-1]
    for seed, epoch in ((1, 3), (2, 2)):
        assert list(sampled(usual, tokenizer, seed, epoch)) != first
    twice = Sampled(Chosen(usual, np.array([3, 3])), (tokenizer,) * 2, 1, 2, np.full((2, 2), 99))
    assert twice[0] != twice[1]


def test_a_sampled_pair_says_the_same_and_stays_within_its_room(
    usual: Examples, tokenizer: BpeTokenizer
) -> None:
    drawn = sampled(usual, tokenizer, 1, 0)
    assert [tokenizer.decode(source) for source, _ in drawn] == LINES
    assert [tokenizer.decode(target) for _, target in drawn] == LINES[::-1]
    found = np.array([[len(side) for side in pair] for pair in drawn])
    assert (found <= drawn.lengths).all()
    is_usual = np.array([each == same for each, same in zip(drawn, usual, strict=True)])
    assert is_usual.mean() < 0.2 and (found > usual.lengths).mean() > 0.8


def test_without_room_the_usual_segmentation_is_taken(
    usual: Examples, tokenizer: BpeTokenizer
) -> None:
    growth = measure_growth(usual, sampled_segmentation((tokenizer, tokenizer)), 1)
    longest = int(usual.lengths.max())
    assert (growth.room(usual.lengths, longest) <= longest).all()
    tight = Sampled(usual, (tokenizer, tokenizer), 1, 0, usual.lengths)
    assert all(len(source) <= longest for source, _ in tight)
    assert sum(each == same for each, same in zip(tight, usual, strict=True)) > 40


def test_the_room_is_as_long_as_nineteen_of_twenty_draws(
    usual: Examples, tokenizer: BpeTokenizer
) -> None:
    room = measure_growth(usual, sampled_segmentation((tokenizer, tokenizer)), 1).room(
        usual.lengths, 1000
    )
    rng = np.random.default_rng(9)
    over = [
        len(tokenizer.encode(line, rng)) > room[row, 0]
        for row, line in enumerate(LINES)
        for _ in range(30)
    ]
    assert 0.01 < np.mean(over) < 0.12


def test_batches_of_sampled_pairs_stay_within_the_budget(
    usual: Examples, tokenizer: BpeTokenizer
) -> None:
    drawn = sampled(usual, tokenizer, 1, 0)
    for rows in plan_batches(example_lengths(drawn), 200, 1, 0):
        batch = collate(drawn, rows.tolist())
        assert max(batch.source.numel(), batch.target_output.numel()) <= 200
