import math
from typing import Any

import pytest
import torch
from jaxtyping import Int
from torch import Tensor

from crosshead.decoding.hypotheses import NOTHING, Hypothesis, Specials
from crosshead.decoding.search import search, stream
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import BundleError, ConfigError
from tests.decoding.toy import (
    EOS,
    PAD,
    START,
    Toy,
    ToyState,
    every_hypothesis,
    log_probs_after,
    random_toy,
    sources,
)

SPECIALS = Specials(start=START, eos=EOS, forbidden=(START, PAD))
GREEDY = DecodeConfig(beam=1)
SAMPLE = DecodeConfig(beam=1, sample=True)
LIMITS = torch.tensor([8, 7, 1, 8, 3, 5])


def sampling(**settings: Any) -> DecodeConfig:
    return DecodeConfig(beam=1, sample=True, **settings)


def first_token_shares(logits: list[float], config: DecodeConfig, draws: int) -> list[float]:
    """How often each token is drawn first: one sentence, `draws` samples of length 1."""
    vocabulary = len(logits)
    toy = Toy(torch.tensor(logits).expand(1, 1, vocabulary, vocabulary).clone())
    found = search(toy, sources(1), torch.tensor([1]), SPECIALS, config, draws)[0]
    first = torch.tensor([EOS if h.finished else h.tokens[0] for h in found])
    return (torch.bincount(first, minlength=vocabulary) / draws).tolist()


@pytest.mark.parametrize(
    "config", [GREEDY, DecodeConfig(), SAMPLE], ids=["greedy", "beam", "sample"]
)
def test_no_output_is_shorter_than_the_least_length(config: DecodeConfig) -> None:
    toy = random_toy(3, sentences=6, positions=8, vocabulary=7)
    toy.table[..., EOS] += 99
    short, long = (
        search(toy, sources(6), LIMITS, SPECIALS, config.model_copy(update={"min_length": least}))
        for least in (0, 2)
    )
    assert not any(best.tokens for [best, *_] in short)
    lengths = [len(best.tokens) for [best, *_] in long]
    assert lengths == [min(2, limit) for limit in LIMITS.tolist()]
    endless = Specials(START, NOTHING, SPECIALS.forbidden)
    assert search(toy, sources(6), LIMITS, endless, config) == search(
        toy, sources(6), LIMITS, endless, config.model_copy(update={"min_length": 3})
    )


@pytest.mark.parametrize("seed", range(10))
def test_greedy_takes_the_most_probable_token_at_every_step(seed: int) -> None:
    toy = random_toy(seed, sentences=6, positions=8, vocabulary=7, spread=1.0)
    found = search(toy, sources(6), LIMITS, SPECIALS, GREEDY)
    for sentence, limit in enumerate(LIMITS.tolist()):
        tokens: list[int] = []
        steps: list[float] = []
        while len(tokens) < limit and tokens[-1:] != [EOS]:
            after = log_probs_after(toy, sentence, tokens)
            allowed = [token for token in range(7) if token not in SPECIALS.forbidden]
            tokens.append(max(allowed, key=after.__getitem__))
            steps.append(after[tokens[-1]])
        (hypothesis,) = found[sentence]
        assert hypothesis.finished == (tokens[-1] == EOS)
        assert hypothesis.tokens + [EOS] * hypothesis.finished == tokens
        assert hypothesis.token_log_probs == pytest.approx(steps, abs=1e-6)
        assert hypothesis.score == pytest.approx(sum(steps) / ((5 + len(steps)) / 6) ** 0.6)


def test_a_beam_of_one_is_greedy_with_either_stop() -> None:
    """An exact beam search would go on after eos: the longer hypothesis has the better score."""
    logits = torch.tensor([[0.2, 0.0, 0.0, 0.1], [9.0, 0.0, 0.0, 0.0]])  # of two positions
    toy = Toy(logits.view(1, 2, 1, 4).expand(1, 2, 4, 4))
    config = DecodeConfig(beam=1, stop="exact", length_penalty=10)
    (found,) = search(toy, sources(1), torch.tensor([2]), SPECIALS, config)[0]
    assert (found.tokens, found.finished) == ([], True)


@pytest.mark.parametrize(("config", "count"), [(GREEDY, 1), (SAMPLE, 3)], ids=["greedy", "sample"])
def test_a_sentence_is_fed_until_its_last_row_has_ended(config: DecodeConfig, count: int) -> None:
    toy = random_toy(4, sentences=6, positions=12, vocabulary=8)
    toy.table[..., EOS] += 3
    found = search(toy, sources(6), torch.full((6,), 12), SPECIALS, config, count)
    lengths = [[len(h.token_log_probs) for h in hypotheses] for hypotheses in found]
    assert max(map(max, lengths)) < 12
    assert [sum(rows.count(sentence) for rows in toy.fed) for sentence in range(6)] == [
        count * max(each) for each in lengths
    ]


def test_rows_that_stay_in_place_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.full((1, 4, 5, 5), -9.0)
    table[..., 3] = 9  # every hypothesis goes on with token 3,
    table[:, 0, :, 4] = 8  # and one of a beam of two begins with token 4
    copied: list[list[int]] = []
    select = ToyState.select

    def recorded(state: ToyState, rows: Tensor) -> ToyState:
        copied.append(rows.tolist())
        return select(state, rows)

    monkeypatch.setattr(ToyState, "select", recorded)
    for config, expected in ((GREEDY, []), (DecodeConfig(beam=2), [[0, 0]])):
        search(Toy(table), sources(1), torch.tensor([4]), SPECIALS, config)
        assert copied == expected
        copied.clear()


class TextToy(Toy):
    """A toy whose sources are empty, as for a text that is continued."""

    def start(self, source: Int[Tensor, "B 0"]) -> ToyState:
        return super().start(torch.zeros(len(source), 1, dtype=torch.long))


def test_a_stream_is_the_text_that_search_finds() -> None:
    toy = TextToy(random_toy(3, sentences=1, positions=12, vocabulary=30, spread=0.5).table)
    prefix = torch.tensor([[START, 5]])
    for config in (GREEDY, SAMPLE):
        (expected,) = search(
            toy, prefix[:, :0], torch.tensor([9]), SPECIALS, config, prefix=prefix
        )[0]
        tokens = list(stream(toy, prefix, 9, SPECIALS, config))
        assert tokens == expected.tokens + [EOS] * expected.finished


def test_the_default_is_the_beam_of_the_paper() -> None:
    toy = random_toy(2, sentences=2, positions=4, vocabulary=4)
    limits = torch.tensor([4, 4])
    found = search(toy, sources(2), limits, SPECIALS, DecodeConfig(), 4)
    for sentence, hypotheses in enumerate(found):
        # One ordinary token beside eos: a beam of four holds everything there is.
        finished, _ = every_hypothesis(toy, sentence, 4, 0.6, SPECIALS.forbidden)
        scores = [score for score, _ in finished]
        assert [h.score for h in hypotheses] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize(
    ("config", "n_best"),
    [(GREEDY, 1), (DecodeConfig(), 2), (SAMPLE, 1), (sampling(top_k=9, top_p=0.8), 3)],
    ids=["greedy", "beam", "sample", "shortlist"],
)
def test_a_sentence_does_not_notice_its_batch(config: DecodeConfig, n_best: int) -> None:
    toy = random_toy(4, sentences=64, positions=12, vocabulary=200, spread=2.0)
    toy.table[..., EOS] += 4
    limits = torch.randint(1, 13, (64,), generator=torch.Generator().manual_seed(0))
    together = search(toy, sources(64), limits, SPECIALS, config, n_best)
    assert len({len(found[0].tokens) for found in together}) > 4
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    for some, size in ((order[:12], 1), (order[12:], 7)):
        for places in some.split(size):
            found = search(
                toy, places[:, None], limits[places], SPECIALS, config, n_best, places.tolist()
            )
            assert found == [together[place] for place in places.tolist()]


def test_samples_are_a_function_of_seed_sentence_and_place() -> None:
    toy = random_toy(0, sentences=1, positions=8, vocabulary=30, spread=0.5)
    source, limits = torch.zeros(3, 1, dtype=torch.long), torch.tensor([8, 8, 8])

    def tokens(seed: int, count: int = 1) -> list[list[int]]:
        found = search(toy, source, limits, SPECIALS, sampling(seed=seed), count)
        return [h.tokens for hypotheses in found for h in hypotheses]

    assert tokens(1) == tokens(1)
    everything = [*tokens(1), *tokens(2)]
    assert len({tuple(one) for one in everything}) == 6
    assert all(one in tokens(1, count=5) for one in tokens(1))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_distribution_of_what_is_allowed(temperature: float) -> None:
    logits = [0.5, 9.0, 9.0, -1.0, 2.0, 1.0, -math.inf]
    shares = first_token_shares(logits, sampling(temperature=temperature), 4000)
    expected = torch.tensor(logits) / temperature
    expected[list(SPECIALS.forbidden)] = -math.inf
    assert shares == pytest.approx(expected.softmax(-1).tolist(), abs=0.04)
    assert shares[START] == shares[PAD] == shares[6] == 0


@pytest.mark.parametrize("least", [{"temperature": 1e-6}, {"top_p": 1e-308}])
def test_a_cold_sample_is_greedy(least: dict[str, float]) -> None:
    toy = random_toy(7, sentences=6, positions=8, vocabulary=9)
    cold = search(toy, sources(6), LIMITS, SPECIALS, sampling(**least))
    assert cold == search(toy, sources(6), LIMITS, SPECIALS, GREEDY)


def test_samples_report_the_probability_the_model_gave() -> None:
    toy = random_toy(1, sentences=2, positions=5, vocabulary=9)
    config = sampling(temperature=2.0, top_k=3)
    found = search(toy, sources(2), torch.tensor([5, 4]), SPECIALS, config, 4)
    for sentence, hypotheses in enumerate(found):
        assert len(hypotheses) == 4
        assert hypotheses == sorted(hypotheses, key=lambda h: (not h.finished, -h.score))
        for h in hypotheses:
            written = h.tokens + [EOS] * h.finished
            expected = [
                log_probs_after(toy, sentence, written[:place])[token]
                for place, token in enumerate(written)
            ]
            assert h.token_log_probs == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("config", [GREEDY, DecodeConfig(), SAMPLE], ids=["1", "4", "sample"])
def test_edges(config: DecodeConfig) -> None:
    def outputs(vocabulary: int, limit: int) -> list[list[Hypothesis]]:
        toy = random_toy(0, sentences=2, positions=3, vocabulary=vocabulary)
        if vocabulary > 3:  # the second sentence never ends
            toy.table[1, :, :, EOS] = -math.inf
        return search(toy, sources(2), torch.tensor([limit, limit]), SPECIALS, config)

    assert [(h.tokens, h.finished) for (h,) in outputs(3, 2)] == [([], True)] * 2
    assert [(h.tokens, h.finished) for (h,) in outputs(4, 1)][1] == ([3], False)
    assert [(h.tokens, h.finished) for (h,) in outputs(4, 3)][1] == ([3, 3, 3], False)
    none = torch.empty(0, 1, dtype=torch.long)
    assert search(random_toy(0), none, none[:, 0], SPECIALS, config) == []


@pytest.mark.parametrize("config", [GREEDY, DecodeConfig(), SAMPLE], ids=["1", "4", "sample"])
def test_a_model_that_diverged_is_refused(config: DecodeConfig) -> None:
    toy = random_toy(0)
    toy.table[1] = math.nan
    with pytest.raises(BundleError, match="not finite"):
        search(toy, sources(2), torch.tensor([3, 3]), SPECIALS, config)


def test_more_hypotheses_than_the_beam_are_refused() -> None:
    arguments = random_toy(0), sources(1), torch.tensor([3]), SPECIALS
    with pytest.raises(ConfigError, match=r"decode\.beam to 5"):
        search(*arguments, DecodeConfig(), 5)
    with pytest.raises(ConfigError, match=r"decode\.beam to 2"):
        search(*arguments, GREEDY, 2)
    with pytest.raises(ConfigError, match="1 or more"):
        search(*arguments, SAMPLE, 0)
    with pytest.raises(ValueError, match="2 sentence numbers"):
        search(*arguments, SAMPLE, 1, [0, 1])
    with pytest.raises(ValueError, match="maximum lengths of 1 or more"):
        search(*arguments[:2], torch.tensor([0]), SPECIALS, GREEDY)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_offset_reaches_the_scores(beam: int) -> None:
    toy, limits = random_toy(3, sentences=4, positions=6, vocabulary=9), torch.full((4,), 6)
    decode = DecodeConfig(beam=beam, length_penalty=1.0, length_offset=0)
    for [best] in search(toy, sources(4), limits, SPECIALS, decode):
        assert best.score == pytest.approx(best.log_prob / len(best.token_log_probs))
    sampled = DecodeConfig(beam=1, sample=True, length_penalty=1.0, length_offset=0)
    for [best] in search(toy, sources(4), limits, SPECIALS, sampled):
        assert best.score == pytest.approx(best.log_prob / len(best.token_log_probs))
