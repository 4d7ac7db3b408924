"""Recurrent models pass the tests of whatever can be searched."""

import pytest
import torch

from crosshead.models.recurrent import Recurrent
from tests.models.decodable import SOURCES, DecodableTests, JoiningTests, check_arrivals
from tests.models.small_recurrents import KINDS, model_of
from tests.models.small_transformers import padded, tokens
from tests.parameters import mostly_slow

DIFFERENT = (
    "none, gru", "none, reversed, one way", "bahdanau, lstm", "general", "concat", "location",
    "local, fed",
)  # fmt: skip
"""Kinds that together have every option; the others combine the same options once more."""


class TestRecurrent(DecodableTests, JoiningTests):
    @pytest.fixture(params=mostly_slow(KINDS, DIFFERENT))
    def model(self, request: pytest.FixtureRequest) -> Recurrent:
        return model_of(KINDS[request.param])


def test_a_sentence_does_not_notice_when_others_come_and_go() -> None:
    check_arrivals(model_of(KINDS["general, fed"]))


@pytest.mark.parametrize("name", ["bahdanau, gru", "general"])
def test_the_memory_of_a_sentence_is_shared_by_its_rows(name: str) -> None:
    state = model_of(KINDS[name]).start(padded(SOURCES))
    expanded = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert expanded.memory.layers is state.memory.layers


@pytest.mark.parametrize("name", ["bahdanau, gru", "local, fed"])
def test_gradients_pass_through_steps_as_through_the_forward(name: str) -> None:
    model = model_of(KINDS[name]).requires_grad_()
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    state, said = model.start(source), []
    for t in range(4):
        features, state = model.step(state, target[:, t : t + 1])
        said.append(features)
    weights = list(model.parameters())
    both = (torch.stack(said, dim=1), model.features(source, target))
    found, expected = (
        torch.autograd.grad(each.sin().sum(), weights, allow_unused=True) for each in both
    )
    for ours, right in zip(found, expected, strict=True):
        assert (ours is None) == (right is None)
        if ours is not None:
            torch.testing.assert_close(ours, right)
