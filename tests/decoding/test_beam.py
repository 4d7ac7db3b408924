import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.decoding.beam import beam_search
from crosshead.decoding.hypotheses import Hypothesis, Specials
from crosshead.decoding.search import greedy_search, search
from crosshead.decoding.settings import DecodeConfig, Stop, length_penalty
from crosshead.errors import BundleError
from tests.decoding.toy import (
    EOS,
    PAD,
    START,
    Scored,
    Toy,
    every_hypothesis,
    log_probs_after,
    plain_beam,
    random_toy,
    sources,
)

SPECIALS = Specials(start=START, eos=EOS, forbidden=(START, PAD))


def assert_equal(found: list[Hypothesis], expected: list[Scored]) -> None:
    assert [h.tokens + [EOS] * h.finished for h in found] == [tokens for _, tokens in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    limits=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    vocabulary=st.sampled_from([3, 4, 5, 9]),
    spread=st.sampled_from([0.5, 2.0, 5.0]),
    beam=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 2.0]),
    stop=st.sampled_from(["full", "last", "exact", "count"]),
    offset=st.sampled_from([0.0, 5.0]),
    min_length=st.integers(0, 3),
    data=st.data(),
)
def test_it_finds_what_a_plain_beam_search_without_early_stops_finds(
    seed: int,
    limits: list[int],
    vocabulary: int,
    spread: float,
    beam: int,
    alpha: float,
    stop: Stop,
    offset: float,
    min_length: int,
    data: st.DataObject,
) -> None:
    n_best = data.draw(st.integers(1, beam))
    min_length = min_length if vocabulary > 3 else 0  # there, only the end is allowed
    toy = random_toy(seed, len(limits), 6, vocabulary, spread)
    lengths = torch.tensor(limits)
    given = toy, sources(len(limits)), lengths, SPECIALS, beam, alpha, n_best
    found = beam_search(*given, stop=stop, offset=offset, min_length=min_length)
    for sentence, limit in enumerate(limits):
        expected = plain_beam(
            toy, sentence, limit, beam, alpha, n_best, SPECIALS.forbidden, stop, offset, min_length
        )
        assert_equal(found[sentence], expected)


def test_a_vocabulary_wide_enough_for_the_two_stages() -> None:
    toy = random_toy(0, sentences=2, positions=4, vocabulary=1000, spread=3.0)
    toy.table[:, 1:, :, EOS] += 9  # else nothing would ever finish
    found = beam_search(toy, sources(2), torch.tensor([4, 3]), SPECIALS, 4, 0.6, 4)
    for sentence, limit in enumerate([4, 3]):
        expected = plain_beam(toy, sentence, limit, 4, 0.6, 4, SPECIALS.forbidden, "full")
        assert any(tokens[-1] == EOS for _, tokens in expected)
        assert_equal(found[sentence], expected)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_that_holds_everything_finds_the_best_of_all(seed: int, alpha: float) -> None:
    toy = random_toy(seed, sentences=3, positions=4, vocabulary=5)
    limits = [4, 1, 3]
    found = beam_search(toy, sources(3), torch.tensor(limits), SPECIALS, 40, alpha, 12)
    for sentence, limit in enumerate(limits):
        finished, unfinished = every_hypothesis(toy, sentence, limit, alpha, SPECIALS.forbidden)
        assert_equal(found[sentence], (finished + unfinished)[:12])


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy_search(seed: int) -> None:
    toy = random_toy(seed, sentences=6, positions=8, vocabulary=7, spread=1.0)
    limits = torch.tensor([8, 7, 1, 8, 3, 5])
    beam = beam_search(toy, sources(6), limits, SPECIALS, 1, 0.6, 1)
    assert beam == greedy_search(toy, sources(6), limits, SPECIALS, 0.6)


@pytest.mark.parametrize("n_best", [1, 3])
def test_a_sentence_does_not_notice_its_batch(n_best: int) -> None:
    toy = random_toy(3, sentences=64, positions=12, vocabulary=40, spread=1.5)
    limits = torch.randint(1, 13, (64,), generator=torch.Generator().manual_seed(0))
    together = beam_search(toy, sources(64), limits, SPECIALS, 4, 0.6, n_best)
    alone = [
        beam_search(toy, sources(64)[[i]], limits[[i]], SPECIALS, 4, 0.6, n_best)[0]
        for i in range(64)
    ]
    assert together == alone  # to the last bit of every score


def test_every_sentence_has_as_many_rows_and_answered_ones_leave() -> None:
    toy = random_toy(1, sentences=8, positions=10, vocabulary=12, spread=1.0)
    limits = torch.tensor([1, 10, 3, 10, 10, 5, 10, 8])
    beam_search(toy, sources(8), limits, SPECIALS, 3, 0.6, 2)
    assert toy.fed[0] == list(range(8))
    for step, rows in enumerate(toy.fed[1:], start=1):
        left = sorted(set(rows))
        assert rows == [sentence for sentence in left for _ in range(3)]
        assert all(limits[sentence] > step for sentence in left)
    assert len(toy.fed[-1]) < len(toy.fed[1])


def certain(first_eos: float) -> Toy:
    """A toy that gives eos `first_eos` of the first token, and never ends what goes on after it."""
    table = torch.full((1, 50, 5, 5), -40.0)
    table[:, :, :, 3] = math.log(1 - 1e-6)
    table[:, :, :, EOS] = math.log(1e-6)
    table[:, 0, :, EOS] = math.log(first_eos)
    table[:, 0, :, 3] = math.log(1 - first_eos)
    return Toy(table)


def test_it_stops_as_soon_as_nothing_can_beat_the_finished() -> None:
    limits = torch.tensor([50])
    sure, unsure = certain(0.99), certain(0.6)
    for toy in (sure, unsure):
        assert beam_search(toy, sources(1), limits, SPECIALS, 2, 0.6, 1)[0][0].tokens == []
    # log 0.01 over the penalty of 50 tokens is below log 0.99; log 0.4 over it is not below log 0.6
    assert len(sure.fed) == 1
    assert math.log(0.4) / (55 / 6) ** 0.6 > math.log(0.6)
    assert len(unsure.fed) > 1


def test_without_a_length_penalty_the_bound_is_the_log_probability_itself() -> None:
    toy = certain(0.6)
    beam_search(toy, sources(1), torch.tensor([50]), SPECIALS, 2, 0.0, 1)
    assert len(toy.fed) == 1


def long_way_round(first_eos: float, limit: int, improbable: float = 0.0) -> Toy:
    """A toy that ends at once, with `first_eos`, or else after `limit` - 1 times token 3.

    On the way eos is `improbable`, and nothing else is possible.
    """
    table = torch.full((1, limit, 4, 4), -math.inf)
    table[:, :, :, 3] = math.log1p(-improbable)
    table[:, :, :, EOS] = math.log(improbable) if improbable else -math.inf
    table[:, 0, :, EOS], table[:, 0, :, 3] = math.log(first_eos), math.log1p(-first_eos)
    table[:, -1, :, EOS], table[:, -1, :, 3] = 0.0, -math.inf
    return Toy(table)


@pytest.mark.parametrize("stop", ["full", "last", "exact"])
def test_improbable_ends_do_not_hide_a_better_hypothesis(stop: Stop) -> None:
    """Enough of them finish to fill a beam before the best hypothesis does."""
    toy = long_way_round(first_eos=0.5, limit=8, improbable=1e-4)
    found = beam_search(toy, sources(1), torch.tensor([8]), SPECIALS, 4, 0.2, 1, stop=stop)[0][0]
    assert found.tokens == [3] * 7
    assert found.score == pytest.approx(-0.5944, abs=1e-4)
    assert found.score > math.log(0.5)  # the score of the empty one


@pytest.mark.parametrize(("stop", "written"), [("full", []), ("last", [3] * 8), ("exact", [3] * 8)])
def test_the_full_stop_does_not_wait_for_what_scores_better_later(
    stop: Stop, written: list[int]
) -> None:
    toy = long_way_round(first_eos=0.55, limit=9, improbable=1e-4)
    limits = torch.tensor([9])
    found = beam_search(toy, sources(1), limits, SPECIALS, 4, 0.6, 1, stop=stop)[0][0]
    assert found.tokens == written
    assert len(toy.fed) == (9 if written else 4)
    # The configuration says the same.
    [[same]] = search(toy, sources(1), limits, SPECIALS, DecodeConfig(stop=stop))
    assert same == found


@pytest.mark.parametrize(
    ("bound", "first_eos", "written"),
    # The penalty of 9 tokens is 1.6625, of 8 tokens 1.5904 and of 10 tokens 1.7329.
    [("of one token less", 0.584, [3] * 8), ("of one token more", 0.590, [])],
)
def test_the_bound_is_the_penalty_of_the_longest_output(
    bound: str, first_eos: float, written: list[int]
) -> None:
    toy = long_way_round(first_eos, limit=9)
    rest = math.log1p(-first_eos)
    exact, other = (rest / length_penalty(length, 0.6) for length in (9, 8 if written else 10))
    assert (exact > math.log(first_eos)) == bool(written), f"not so {bound}"
    assert (other > math.log(first_eos)) != bool(written)
    found = beam_search(toy, sources(1), torch.tensor([9]), SPECIALS, 2, 0.6, 1)[0][0]
    assert found.tokens == written
    assert len(toy.fed) == (9 if written else 1)


def test_a_longer_hypothesis_that_scores_better_later_is_waited_for() -> None:
    table = torch.full((1, 9, 5, 5), -40.0)
    table[:, :, :, 3] = 20.0
    table[:, 0, :, EOS], table[:, 0, :, 3] = math.log(0.55), math.log(0.45)
    table[:, 8, :, EOS] = 40.0
    found = beam_search(Toy(table), sources(1), torch.tensor([9]), SPECIALS, 4, 0.6, 2)[0]
    assert [h.tokens for h in found] == [[3] * 8, []]


@pytest.mark.parametrize("beam", [1, 4])
def test_where_only_eos_is_allowed_the_output_is_empty(beam: int) -> None:
    toy = random_toy(0, sentences=2, positions=3, vocabulary=3)
    found = beam_search(toy, sources(2), torch.tensor([3, 1]), SPECIALS, beam, 0.6, 1)
    assert [[(h.tokens, h.finished) for h in best] for best in found] == [[([], True)]] * 2


def test_a_vocabulary_smaller_than_the_beam_gives_fewer_hypotheses() -> None:
    toy = random_toy(0, sentences=1, positions=1, vocabulary=4)
    found = beam_search(toy, sources(1), torch.tensor([1]), SPECIALS, 8, 0.6, 8)[0]
    assert [(h.tokens, h.finished) for h in found] == [([], True), ([3], False)]


def test_the_log_probabilities_are_those_of_the_model() -> None:
    toy = random_toy(5, sentences=1, positions=6, vocabulary=8)
    for h in beam_search(toy, sources(1), torch.tensor([6]), SPECIALS, 4, 0.6, 4)[0]:
        written = h.tokens + [EOS] * h.finished
        expected = [
            log_probs_after(toy, 0, written[:place])[token] for place, token in enumerate(written)
        ]
        assert h.token_log_probs == pytest.approx(expected, abs=1e-6)
        assert h.log_prob == pytest.approx(sum(expected), abs=1e-5)


def test_no_sentences() -> None:
    none = torch.empty(0, 1, dtype=torch.long)
    assert beam_search(random_toy(0), none, none[:, 0], SPECIALS, 4, 0.6, 1) == []


def test_what_cannot_be_searched_is_refused() -> None:
    toy = random_toy(0)
    with pytest.raises(ValueError, match="n_best = 5"):
        beam_search(toy, sources(2), torch.tensor([3, 3]), SPECIALS, 4, 0.6, 5)
    with pytest.raises(ValueError, match="maximum lengths of 1 or more"):
        beam_search(toy, sources(2), torch.tensor([3, 0]), SPECIALS, 4, 0.6, 1)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_diverged_is_refused(value: float) -> None:
    toy = random_toy(0)
    toy.table[1, 2] = value
    with pytest.raises(BundleError, match="not finite"):
        beam_search(toy, sources(2), torch.tensor([6, 6]), SPECIALS, 4, 0.6, 4)


def test_a_sentence_without_a_hypothesis_is_refused_beside_others_that_have_some() -> None:
    toy = random_toy(0)
    forbidden = list(SPECIALS.forbidden)
    allowed = [token for token in range(toy.table.shape[-1]) if token not in forbidden]
    toy.table[1, ..., allowed] = -math.inf
    with pytest.raises(BundleError, match="not finite"):
        beam_search(toy, sources(2), torch.tensor([6, 6]), SPECIALS, 4, 0.6, 4)
