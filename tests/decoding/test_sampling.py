import math
from typing import Any

import pytest
import torch

from crosshead.decoding.sampling import inverse_cdf, sampled_from, uniforms
from tests.decoding.toy import EOS, PAD, START

EVERYTHING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


def shares(logits: list[float], **settings: Any) -> list[float]:
    """The probability that each token is drawn with."""
    log_probs = torch.tensor([logits]).log_softmax(-1)
    ids, probabilities = sampled_from(log_probs, (START, PAD), **{**EVERYTHING, **settings})
    found = torch.zeros(len(logits))
    found[ids] = probabilities[0] / probabilities.sum()
    return found.tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_forbidden_tokens_leave_their_share_to_the_others(temperature: float) -> None:
    logits = [0.5, 9.0, 9.0, -1.0, 2.0, 1.0, -math.inf]
    expected = torch.tensor(logits) / temperature
    expected[[START, PAD]] = -math.inf
    found = shares(logits, temperature=temperature)
    assert found == pytest.approx(expected.softmax(-1).tolist(), abs=1e-6)
    assert found[START] == found[PAD] == found[6] == 0


def test_top_k_keeps_the_k_most_probable() -> None:
    found = shares([0.0, 9.0, 9.0, 1.0, 0.5, -1.0], top_k=2)
    assert found[EOS] == found[START] == found[PAD] == found[5] == 0
    assert found[3] == pytest.approx(1 / (1 + math.exp(-0.5)))


def test_top_p_keeps_the_fewest_that_reach_p() -> None:
    logits = [math.log(p) if p else 9.0 for p in (0.4, 0, 0, 0.3, 0.2, 0.06, 0.04)]
    for top_p, kept in ((0.69, (EOS, 3)), (0.71, (EOS, 3, 4))):
        found = shares(logits, top_p=top_p)
        assert [share > 0 for share in found] == [token in kept for token in range(7)]
    # Of the two most probable, eos alone has a share of 4 / 7.
    assert shares(logits, top_k=2, top_p=0.5)[EOS] == 1


@pytest.mark.parametrize("top_p", [0.5, 0.7])
def test_a_nucleus_wider_than_the_first_look_is_whole(top_p: float) -> None:
    probabilities = torch.linspace(2, 1, 400) / 600  # eos, then ids from 3 on
    logits = [0.0, 9.0, 9.0, *probabilities[1:].log().tolist()]
    logits[EOS] = probabilities[0].log().item()
    inside = int((probabilities.cumsum(0) < top_p).sum()) + 1
    last = inside + 1  # the last id inside, since start and padding stand before
    found = shares(logits, top_p=top_p)[3:]
    assert [share > 0 for share in found] == [token <= last for token in range(3, 402)]


def test_equal_tokens_at_the_end_of_the_nucleus_are_all_in() -> None:
    found = shares([1.0, 9.0, 9.0, 0.0, 0.0, 0.0], top_k=2)
    assert all(share > 0 for share in (found[EOS], *found[3:]))


def test_the_least_nucleus_is_the_most_probable_token() -> None:
    assert shares([0.0, 9.0, 9.0, 1.0, 0.5], top_p=1e-308)[3] == 1


def test_each_number_falls_into_the_share_of_a_token() -> None:
    rows = torch.tensor([[1.0, 0.0, 1.0, 2.0]]).expand(5, -1)
    numbers = torch.tensor([0.0, 0.24, 0.25, 0.5, 0.999])
    assert inverse_cdf(rows, numbers).tolist() == [0, 0, 2, 3, 3]


def test_numbers_depend_on_seed_sentence_and_sample_and_longer_rows_begin_alike() -> None:
    found = [
        uniforms(seed, number, index, 4).tolist()
        for seed, number, index in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1))
    ]
    assert len({tuple(each) for each in found}) == 4
    assert uniforms(1, 0, 0, 9)[:4].tolist() == found[0]
    assert all(0 <= each < 1 for row in found for each in row)
