import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.system.lines import read_lines
from crosshead.text.batching import (
    EqualRows,
    Example,
    Plan,
    collate,
    example_lengths,
    padding_share,
    plan_batches,
    plan_in_order,
)
from crosshead.text.symbols import WordTokenizer
from crosshead.vocabulary import BOS, EOS, PAD

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=60).map(
    lambda rows: np.array(rows, np.int64).reshape(-1, 2)
)
IDS = st.lists(st.integers(4, 99), max_size=7)


def as_lists(plan: Plan) -> list[list[int]]:
    return [rows.tolist() for rows in plan]


@given(lengths=LENGTHS, budget=st.integers(30, 200), seed=st.integers(0, 9))
def test_every_row_once_and_never_over_the_budget(
    lengths: np.ndarray, budget: int, seed: int
) -> None:
    for plan in (plan_batches(lengths, budget, seed, 3), plan_in_order(lengths, budget)):
        assert sorted(row for rows in as_lists(plan) for row in rows) == list(range(len(lengths)))
        assert all(len(rows) * lengths[rows].max() <= budget for rows in plan)
        assert all(len(rows) for rows in plan)


@given(lengths=LENGTHS, seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_a_plan_is_a_function_of_its_arguments(lengths: np.ndarray, seed: int, epoch: int) -> None:
    first = as_lists(plan_batches(lengths, 64, seed, epoch))
    assert as_lists(plan_batches(lengths.copy(), 64, seed, epoch)) == first


def test_batches_are_filled_as_far_as_the_next_row_allows() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, (3000, 2))
    plan = plan_in_order(lengths, 512)
    for rows, following in itertools.pairwise(plan):
        longest = max(lengths[rows].max(), lengths[following[0]].max())
        assert (len(rows) + 1) * longest > 512


def test_epochs_and_seeds_group_anew() -> None:
    lengths = np.random.default_rng(0).poisson(15, (2000, 2)) + 2
    plans = [plan_batches(lengths, 512, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    groups = [{frozenset(rows) for rows in as_lists(plan)} for plan in plans]
    assert not groups[0] & groups[1] and not groups[0] & groups[2]
    sizes = [lengths[rows].max() for rows in plans[0]]
    assert sizes != sorted(sizes)


def test_a_pair_over_the_budget_is_named_in_training_and_alone_in_validation() -> None:
    lengths = np.array([[3, 4], [5, 101], [2, 2]])
    with pytest.raises(DataError, match=r"pair 1 .* has 101 tokens, more than .* \(100\)"):
        plan_batches(lengths, 100, 0, 0)
    assert as_lists(plan_in_order(lengths, 100)) == [[2, 0], [1]]


def test_no_rows_no_batches() -> None:
    nothing = example_lengths([])
    assert plan_batches(nothing, 10, 0, 0) == plan_in_order(nothing, 10) == []
    assert padding_share(nothing, []) == 0


@given(
    examples=st.lists(st.tuples(IDS, IDS), min_size=1, max_size=6),
    start=st.sampled_from([PAD, BOS]),
)
def test_collate_against_plain_lists(examples: list[Example], start: int) -> None:
    rows = list(range(len(examples)))[::-1]
    batch = collate(examples, np.array(rows), start)
    assert batch.source.dtype == batch.target_input.dtype == torch.int64
    width = [max(len(example[side]) for example in examples) + 1 for side in (0, 1)]
    for place, row in enumerate(rows):
        source, target = map(list, examples[row])
        assert batch.source[place].tolist() == padded([*source, EOS], width[0])
        assert batch.target_output[place].tolist() == padded([*target, EOS], width[1])
        assert batch.target_input[place].tolist() == padded([start, *target], width[1])
    lengths = example_lengths(examples)
    assert int((batch.source != PAD).sum()) == lengths[:, 0].sum()
    assert batch.count == lengths[:, 1].sum()
    cells = batch.source.numel() + batch.target_output.numel()
    assert padding_share(lengths, [np.array(rows)]) == pytest.approx(1 - lengths.sum() / cells)


def padded(ids: list[int], width: int) -> list[int]:
    return ids + [PAD] * (width - len(ids))


def test_a_batch_moves_as_a_whole() -> None:
    batch = collate([([5], [6, 7])], [0]).to(torch.device("meta"))
    assert {batch.source.device.type, batch.target_input.device.type} == {"meta"}
    assert batch.target_output.device.type == "meta"


@pytest.mark.slow
def test_padding_on_real_text_is_at_most_a_tenth(data: Path) -> None:
    sides = [read_lines(data / f"multi30k/raw/train.{language}") for language in ("en", "de")]
    tokenizer = WordTokenizer.train([*sides[0], *sides[1]], 8000, [])
    ids = [tokenizer.encode_lines(side) for side in sides]
    lengths = example_lengths(list(zip(*ids, strict=True)))
    for epoch in range(3):
        plan = plan_batches(lengths, 4096, seed=1, epoch=epoch)
        assert padding_share(lengths, plan) < 0.06
    assert padding_share(lengths, plan_in_order(lengths, 4096)) < 0.07


@dataclass(frozen=True)
class Cards(EqualRows):
    """Cards of five letters."""

    count: int
    length: int = 5
    row, bound, units = "card", "data.letters", "letters"

    def __len__(self) -> int:
        return self.count

    def extent(self, row: int) -> str:
        return "one word"


def test_batches_have_all_rows_once_in_an_order_of_seed_and_epoch() -> None:
    cards = Cards(23)
    plans = {drawn: cards.plan(20, *drawn) for drawn in ((1, 0), (1, 1), (2, 0))}
    for plan in plans.values():
        assert [len(each) for each in plan] == [4, 4, 4, 4, 4, 3]
        assert sorted(np.concatenate(plan)) == list(range(23))
    orders = {tuple(np.concatenate(plan)) for plan in plans.values()}
    assert len(orders) == 3 and tuple(np.concatenate(cards.plan(20, 1, 0))) in orders
    assert np.concatenate(cards.in_order(20)).tolist() == list(range(23))
    assert cards.lengths.shape == (23, 1) and set(cards.lengths[:, 0]) == {5}


def test_rows_longer_than_a_batch_are_refused() -> None:
    assert len(Cards(3).in_order(5)) == 3
    message = r"each card of one word has 5 letters, more than the 4 of train.batch_tokens; raise"
    with pytest.raises(DataError, match=message):
        Cards(3).in_order(4)


def test_a_rounded_batch_has_more_padding_and_the_same_count() -> None:
    """Sizes keep four binary digits, so the spare part is at most an eighth."""
    batch = collate([([4] * n, [5] * (2 * n)) for n in range(1, 34)], list(range(33)))
    rounded = batch.rounded()
    assert rounded.shape == ((36, 36), (36, 72), (36, 72)) and rounded.count == batch.count
    for own, found in zip((*batch.inputs, batch.target_output), rounded.tensors, strict=True):
        rows, width = own.shape
        assert torch.equal(found[:rows, :width], own)
        assert not found[rows:].any() and not found[:, width:].any()
    assert collate([([4], [5])], [0]).rounded().shape == ((1, 2), (1, 2), (1, 2))
