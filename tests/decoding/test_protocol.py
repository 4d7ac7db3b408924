"""Every model that search decodes, and the toy model of its tests, fulfils the protocol.

Search calls the methods of a model by position, so the order of parameters counts, not the names.
"""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from crosshead.addons.vision.models.image_encoder import ImageStackConfig
from crosshead.decoding.protocol import Decodable
from crosshead.models.base import TokenModel, TokenModelConfig
from crosshead.models.registry import CONFIGS, build_model
from tests.decoding.toy import random_toy
from tests.inspection import pipelines

METHODS = ("start", "step", "logits")
VOCABULARY = 11


def model_of(name: str) -> TokenModel:
    torch.manual_seed(0)
    return build_model(pipelines.CONFIGS[name], VOCABULARY, VOCABULARY).eval().requires_grad_(False)


def source_of(model: TokenModel) -> Tensor:
    """Two sources; empty ones for a model of monolingual text."""
    return torch.tensor([[4, 5, 2], [6, 2, 0]])[:, : 3 * (model.config.vocabularies - 1)]


DECODED = [name for name in pipelines.CONFIGS if name != "encoder"]


def test_every_architecture_is_decoded_here_but_those_that_only_read() -> None:
    named = {config.architecture for config in pipelines.CONFIGS.values()}
    of_text = {
        name
        for name, each in CONFIGS.items()
        if issubclass(each, TokenModelConfig) and not issubclass(each, ImageStackConfig)
    }
    assert named == of_text
    assert not any(hasattr(model_of("encoder"), name) for name in ("start", "step"))


@pytest.mark.parametrize("name", [*DECODED, "toy"])
def test_methods_take_what_search_gives_them(name: str) -> None:
    model: Any = random_toy(0) if name == "toy" else model_of(name)
    for method in METHODS:
        _, *given = inspect.signature(getattr(Decodable, method)).parameters
        inspect.signature(getattr(model, method)).bind(*given)
    inspect.signature(
        model.start(torch.full((2, 1), 2) if name == "toy" else source_of(model)).select
    ).bind("rows")


@pytest.mark.parametrize("name", DECODED)
def test_a_state_steps_and_gives_logits_for_the_rows_asked_for(name: str) -> None:
    model: Any = model_of(name)
    state = model.start(source_of(model))
    hidden, state = model.step(state, torch.tensor([[1], [1]]))
    assert hidden.shape[0] == 2
    logits = model.logits(hidden)
    assert logits.shape == (2, VOCABULARY)
    torch.testing.assert_close(model.logits(hidden[1:]), logits[1:])
    chosen = state.select(torch.tensor([1, 0, 1]))
    assert type(chosen) is type(state)
    hidden, _ = model.step(chosen, torch.tensor([[4], [4], [4]]))
    torch.testing.assert_close(hidden[0], hidden[2])
    alone, _ = model.step(state.select(torch.tensor([0])), torch.tensor([[4]]))
    torch.testing.assert_close(hidden[1], alone[0])
    with pytest.raises(ValueError, match="at least one row"):
        state.select(torch.tensor([], dtype=torch.long))
