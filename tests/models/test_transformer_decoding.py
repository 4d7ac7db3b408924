"""A cached step is the uncached forward, whatever rows are selected in between."""

import pytest
import torch

from crosshead.attention.masks import Mask
from crosshead.errors import UserError
from crosshead.models.transformer import Transformer
from tests.models.decodable import SOURCES, DecodableTests, JoiningTests, check_arrivals
from tests.models.small_transformers import TINY, VARIANTS, model_of, padded, tokens


class TestTransformer(DecodableTests, JoiningTests):
    @pytest.fixture(params=VARIANTS)
    def model(self, request: pytest.FixtureRequest) -> Transformer:
        return model_of(VARIANTS[request.param])


def test_a_sentence_does_not_notice_when_others_come_and_go() -> None:
    check_arrivals(model_of(TINY))


def test_the_memory_of_a_sentence_is_shared_by_its_rows() -> None:
    model = model_of(TINY)
    state = model.start(padded(SOURCES))
    expanded = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    reordered = expanded.select(torch.tensor([1, 1, 3, 2, 4, 4]))
    for later in (expanded, reordered):
        assert later.memory.rows_per_sentence == 2
        for part, original in zip(later.memory.layers, state.memory.layers, strict=True):
            assert part.keys is original.keys
    fewer = reordered.select(torch.tensor([0, 1, 4, 5]))
    assert fewer.memory.layers[0].keys.shape[0] == 2
    assert fewer.memory.mask.shape[0] == 2


def test_no_gradient_passes_a_step() -> None:
    """A cache that is extended in place could not be gone back through."""
    model = model_of(TINY).requires_grad_()
    features, _ = model.step(model.start(tokens(2, 4)), tokens(2, 3))
    assert not features.requires_grad


def test_one_token_needs_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy and beam search step by single tokens; a mask a step would be thrown away."""
    model = model_of(TINY)
    _, state = model.step(model.start(tokens(2, 5)), tokens(2, 3))

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a mask is built that allows everything")

    monkeypatch.setattr(Mask, "dense", refuse)
    model.step(state, tokens(2, 1))


def test_learned_positions_end_with_an_error_that_names_both_lengths() -> None:
    model = model_of(VARIANTS["learned, odd widths"])
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model(tokens(1, 65), tokens(1, 3))
    state = model.start(tokens(1, 3))
    _, state = model.step(state, tokens(1, 64))
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model.step(state, tokens(1, 1))
