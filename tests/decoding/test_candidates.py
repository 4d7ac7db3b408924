import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crosshead.decoding import candidates
from crosshead.decoding.candidates import (
    BLOCK,
    NextTokens,
    best_first,
    first_tokens,
    make_hypothesis,
    top_values,
)
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.settings import length_penalty
from crosshead.errors import BundleError
from tests.decoding.toy import random_toy

SPECIALS = Specials(start=1, eos=0, forbidden=(1, 2))


@settings(max_examples=60)
@given(
    rows=st.integers(1, 5),
    width=st.sampled_from([1, 3, 64, 65, 700, 1280, 1300, 2049]),
    count=st.integers(1, 12),
    levels=st.sampled_from([2, 50, 10**6]),  # few levels: many equal values
    missing=st.sampled_from([0.0, 0.5, 0.999]),
    seed=st.integers(0, 10**6),
)
def test_two_stages_find_what_topk_finds(
    rows: int, width: int, count: int, levels: int, missing: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (rows, width), generator=generator).float()
    values[torch.rand(values.shape, generator=generator) < missing] = -math.inf
    top, columns = top_values(values, count)
    assert torch.equal(top, values.topk(min(count, width)).values)
    assert torch.equal(values.gather(1, columns), top)
    assert all(len(set(row)) == len(row) for row in columns.tolist())


@pytest.fixture(autouse=True, scope="module")
def _two_stages() -> Iterator[None]:
    """Few values are searched in one stage otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "FEW_VALUES", 0)
        yield


def test_the_remainder_that_fills_no_chunk_is_searched() -> None:
    values = torch.zeros(2, 1300)
    values[0, 1299], values[1, 1281] = 1, 1
    assert top_values(values, 1)[1].tolist() == [[1299], [1281]]


def test_values_are_searched_on_their_device() -> None:
    found = top_values(torch.empty(2, 1300, device="meta"), 2)
    assert [each.device.type for each in found] == ["meta", "meta"]


def everything(log_probs: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    """Chooses all tokens."""
    return log_probs.clone(), torch.arange(log_probs.shape[1]).expand_as(log_probs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_log_probs_are_of_the_whole_distribution(dtype: torch.dtype) -> None:
    logits = torch.randn(2 * BLOCK + 7, 11, dtype=dtype)
    before = logits.clone()
    following = NextTokens(random_toy(1), SPECIALS)
    expected = logits.to(torch.promote_types(dtype, torch.float32)).log_softmax(-1)
    expected[:, [1, 2]] = -math.inf
    following.choose(torch.randn(BLOCK, 13), everything)  # leaves a larger block behind
    for count in (len(logits), 3, BLOCK):
        found, ids = following.choose(logits[:count], everything)
        assert torch.equal(found, expected[:count])
        assert torch.equal(ids, torch.arange(11).expand(count, -1))
    assert torch.equal(logits, before)


def test_every_block_is_chosen_from_with_its_own_rows() -> None:
    logits = torch.randn(3 * BLOCK - 1, 5)
    wanted = torch.arange(len(logits))[:, None] % 5

    def own(log_probs: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        assert len(log_probs) <= BLOCK
        return log_probs.gather(1, wanted[rows]), wanted[rows]

    nothing_forbidden = Specials(start=1, eos=0)
    found, ids = NextTokens(random_toy(1), nothing_forbidden).choose(logits, own)
    assert torch.equal(ids, wanted)
    assert torch.equal(found, logits.log_softmax(-1).gather(1, wanted))


def test_without_an_offset_the_length_penalty_is_that_of_other_toolkits() -> None:
    assert length_penalty(1, 0.6, 0.0) == 1
    assert length_penalty(7, 1.0, 0.0) == 7
    hypothesis = make_hypothesis([4, 3, 0], [-1.0, -2.0, -4.0], SPECIALS, 0.5, 0.0)
    assert hypothesis.score == -7 / math.sqrt(3)


def test_a_hypothesis_ends_before_its_first_eos() -> None:
    hypothesis = make_hypothesis([4, 3, 0, 5, 0], [-1.0, -2.0, -4.0, -8.0, -16.0], SPECIALS, 1.0)
    assert hypothesis.tokens == [4, 3]
    assert hypothesis.token_log_probs == [-1.0, -2.0, -4.0]
    assert hypothesis.log_prob == -7
    assert hypothesis.score == -7 / (8 / 6)
    assert hypothesis.finished


def test_a_hypothesis_without_eos_is_unfinished_and_ranks_last() -> None:
    cut = make_hypothesis([4, 3], [-0.5, -0.5], SPECIALS, 0.0)
    assert (cut.tokens, cut.log_prob, cut.finished) == ([4, 3], -1, False)
    good, poor = (make_hypothesis([4, 0], [-1.0, p], SPECIALS, 0.0) for p in (-1.0, -9.0))
    assert best_first([cut, poor, good]) == [good, poor, cut]


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_probability_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(BundleError, match="not finite"):
        make_hypothesis([4, 0], [-1.0, value], SPECIALS, 0.6)


def test_a_prefix_is_fed_in_place_of_the_start_token() -> None:
    source, prefix = torch.zeros(2, 3, dtype=torch.long), torch.tensor([[5, 4], [3, 2]])
    assert first_tokens(source, SPECIALS, prefix).tolist() == [[5, 4], [3, 2]]
    assert first_tokens(source, SPECIALS, None).tolist() == [[1], [1]]
