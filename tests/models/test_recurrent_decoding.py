"""Recurrent models pass the tests of whatever can be searched."""

import pytest
import torch

from crosshead.models.recurrent import Recurrent
from tests.models.decodable import SOURCES, DecodableTests
from tests.models.small_recurrents import KINDS, model_of
from tests.models.small_transformers import padded


class TestRecurrent(DecodableTests):
    @pytest.fixture(params=KINDS)
    def model(self, request: pytest.FixtureRequest) -> Recurrent:
        return model_of(KINDS[request.param])


@pytest.mark.parametrize("name", ["bahdanau, gru", "general"])
def test_the_memory_of_a_sentence_is_shared_by_its_rows(name: str) -> None:
    state = model_of(KINDS[name]).start(padded(SOURCES))
    expanded = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert expanded.memory.layers is state.memory.layers
