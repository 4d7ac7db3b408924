import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor

from crosshead.decoding.hypotheses import Hypothesis, Specials
from crosshead.decoding.search import search
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.base import SequenceModel, decodable
from crosshead.models.ensemble import Ensemble
from crosshead.models.registry import build_model
from tests.inspection.pipelines import CONFIGS
from tests.parameters import mostly_slow

VOCABULARY = 13
NAMES = ["transformer", "bahdanau", "convolutional", "windows"]
SOURCES = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0], [8, 9, 2, 0]])
SPECIALS = Specials(start=1, eos=2, forbidden=(0, 3))
TARGETS = torch.tensor([[1, 5, 6], [1, 7, 8], [1, 9, 4]])


def model_of(name: str, seed: int = 0) -> SequenceModel:
    torch.manual_seed(seed)
    # One of the models is wider than the others.
    config = CONFIGS[name].model_copy(update={"d_model": 24} if name == "bahdanau" else {})
    model = decodable(build_model(config, VOCABULARY, VOCABULARY)).eval()
    with torch.no_grad():
        model.projection.weight.mul_(4)  # far from ties
    return model.requires_grad_(False)


def found(model: SequenceModel, decode: DecodeConfig, sources: Tensor) -> list[list[Hypothesis]]:
    lengths = torch.full((len(sources),), 9)
    return search(model, sources, lengths, SPECIALS, decode, n_best=1 if decode.beam == 1 else 3)


def tokens(model: SequenceModel, decode: DecodeConfig, sources: Tensor) -> list[list[list[int]]]:
    return [[each.tokens for each in row] for row in found(model, decode, sources)]


SEARCHES = [
    DecodeConfig(beam=1),
    DecodeConfig(beam=4),
    DecodeConfig(beam=1, sample=True, temperature=0.7, seed=3),
]


@pytest.mark.parametrize(
    ("name", "decode"),
    mostly_slow(
        itertools.product(NAMES, SEARCHES),
        [("transformer", each) for each in SEARCHES] + [(name, SEARCHES[1]) for name in NAMES],
    ),
)
def test_an_ensemble_of_one_and_of_twice_the_same_is_the_model(
    name: str, decode: DecodeConfig
) -> None:
    model = model_of(name)
    alone = found(model, decode, SOURCES)
    for count in (1, 2):
        together = found(Ensemble([model_of(name) for _ in range(count)]), decode, SOURCES)
        for left, right in zip(alone, together, strict=True):
            assert [each.tokens for each in left] == [each.tokens for each in right]
            for each, other in zip(left, right, strict=True):
                assert other.token_log_probs == pytest.approx(each.token_log_probs, abs=1e-5)
                assert other.score == pytest.approx(each.score, abs=1e-5)


def test_its_distribution_is_the_mean_of_those_of_its_members() -> None:
    members = [model_of(name) for name in NAMES]
    wanted = torch.stack([model(SOURCES, TARGETS).softmax(-1) for model in members]).mean(0)
    given = Ensemble(members)(SOURCES, TARGETS)
    torch.testing.assert_close(given.exp(), wanted)
    torch.testing.assert_close(given.logsumexp(-1), torch.zeros(3, 3), atol=1e-5, rtol=0)
    # A geometric mean, as of log-probabilities, is another distribution.
    logs = torch.stack([model(SOURCES, TARGETS).log_softmax(-1) for model in members]).mean(0)
    assert (logs.softmax(-1) - wanted).abs().max() > 0.01


def test_steps_are_the_positions_of_a_whole_target() -> None:
    ensemble = Ensemble([model_of(name) for name in NAMES])
    whole = ensemble(SOURCES, TARGETS)
    state = ensemble.start(SOURCES)
    for position in range(TARGETS.shape[1]):
        hidden, state = ensemble.step(state, TARGETS[:, position : position + 1])
        torch.testing.assert_close(ensemble.logits(hidden), whole[:, position])
    chosen = state.select(torch.tensor([2, 0]))
    hidden, _ = ensemble.step(chosen, torch.tensor([[5], [5]]))
    again = ensemble(SOURCES[[2, 0]], torch.cat([TARGETS[[2, 0]], torch.full((2, 1), 5)], 1))
    torch.testing.assert_close(ensemble.logits(hidden), again[:, -1])


@pytest.mark.parametrize("decode", SEARCHES)
def test_the_order_of_members_and_the_other_sentences_change_nothing(decode: DecodeConfig) -> None:
    ensemble = Ensemble([model_of(name) for name in NAMES])
    together = tokens(ensemble, decode, SOURCES)
    assert tokens(Ensemble([model_of(name) for name in NAMES[::-1]]), decode, SOURCES) == together
    if not decode.sample:  # samples depend on the number of the sentence
        alone = [tokens(ensemble, decode, SOURCES[row : row + 1])[0] for row in range(3)]
        assert alone == together


def test_greedy_search_takes_the_most_probable_token_of_the_mean() -> None:
    ensemble = Ensemble([model_of("transformer", seed) for seed in (1, 2, 3)])
    logits = partial(ensemble, SOURCES[:1])
    written = [1]
    for _ in range(9):
        log_probs = logits(torch.tensor([written]))[0, -1]
        log_probs[[0, 3]] = -math.inf
        written.append(int(log_probs.argmax()))
        if written[-1] == 2:
            break
    wanted = [token for token in written[1:] if token != 2]
    assert tokens(ensemble, DecodeConfig(beam=1), SOURCES[:1]) == [[wanted]]


def test_half_precision_is_raised_before_the_mean() -> None:
    ensemble = Ensemble([model_of("transformer", seed) for seed in (1, 2)]).to(torch.bfloat16)
    assert ensemble(SOURCES, TARGETS).dtype == torch.float32


def test_it_has_no_attention_of_its_own_and_is_not_empty() -> None:
    with pytest.raises(ConfigError, match="each model of an ensemble has its own attention"):
        Ensemble([model_of("transformer")]).attentions()
    with pytest.raises(ValueError, match="one model or more"):
        Ensemble([])
