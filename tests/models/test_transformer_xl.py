import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.masks import causal
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.base import ModelConfig
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.training.memory import recompute_activations
from tests.learning import SEEDS, learns
from tests.models.small_language_models import SHAPE, model_of, nothing, periodic
from tests.models.small_transformers import VOCABULARY, tokens


def xl(segment: int, memory: int, **changes: object) -> TransformerXL:
    model = model_of(TransformerXLConfig(**(SHAPE | changes), segment=segment, memory=memory))
    assert isinstance(model, TransformerXL)
    return model


def log_likelihood(logits: Tensor, text: Tensor) -> Tensor:
    """Of every token but the first."""
    return -F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten(), reduction="sum")


def one_pass(model: TransformerXL, text: Tensor) -> Tensor:
    """Full causal attention over the whole text, with the same scores."""
    length = text.shape[1]
    return model.projection(model.stack(model.embeddings(text), causal.dense(length, length)))


# Configuration


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"segment": 0}, "segment: .*1 or more"),
        ({"memory": -1}, "memory: .*0 or more"),
        ({"positions": "learned"}, "^positions: transformer-xl has its own, .* leave positions"),
        ({"score": "cosine"}, "^score: transformer-xl has its own, .* leave score out"),
        (
            {"pattern": "window", "radius": 3},
            "^pattern: transformer-xl has its own, .* set segment",
        ),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(TransformerXLConfig, values)


@pytest.mark.parametrize("other", [each for each in CONFIGS if each is not TransformerXLConfig])
def test_no_other_model_has_a_memory_and_one_line_says_why(other: type[ModelConfig]) -> None:
    with pytest.raises(ConfigError, match=r"^memory: .* transformer-xl, which reads from left"):
        validate(other, {"memory": 64})
    assert validate(TransformerXLConfig, {"memory": 64}).memory == 64


def test_what_it_has_of_its_own_may_be_said() -> None:
    """As every bundle does."""
    config = TransformerXLConfig(**SHAPE, segment=5, memory=2)
    assert TransformerXLConfig.model_validate(config.model_dump()) == config


def test_it_says_what_it_remembers() -> None:
    config = TransformerXLConfig(segment=64, memory=640)
    assert config.shape().endswith("pre-norm, segments of 64 that remember 640 positions")


# Identities


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("segment", [1, 4, 7, 19, 30])
def test_with_memory_of_everything_the_likelihood_is_that_of_one_pass(
    segment: int, norm: str
) -> None:
    text = tokens(2, 19)
    model = xl(segment, memory=18, norm=norm)
    expected = log_likelihood(one_pass(model, text), text)
    torch.testing.assert_close(log_likelihood(model(text), text), expected)
    if segment < 18:
        forgetful = xl(segment, memory=1, norm=norm)
        assert abs(log_likelihood(forgetful(text), text) - expected) > 1e-3


def transcribed(model: TransformerXL, text: Tensor) -> Tensor:
    """Section 3.2: h~ = [SG(m) o h], and m the last of the inputs of each layer."""
    config, found = model.config, []
    memories = [torch.empty(text.shape[0], 0, config.d_model).double() for _ in model.layers()]
    for segment in text.split(config.segment, dim=1):
        h = model.embeddings(segment)
        length = segment.shape[1]
        for number, layer in enumerate(model.layers()):
            before, layer_input = memories[number], layer.add_norm_attention.before(h)
            h_tilde = torch.cat((before.detach(), layer_input), dim=1)
            mask = torch.ones(length, h_tilde.shape[1], dtype=torch.bool).tril(before.shape[1])
            attended = layer.attention(
                layer_input, layer.attention.project(h_tilde), mask[None, None], before.shape[1]
            )
            h = layer.add_norm_attention.after(h, attended)
            y = layer.feedforward(layer.add_norm_feedforward.before(h))
            h = layer.add_norm_feedforward.after(h, y)
            memories[number] = h_tilde[:, h_tilde.shape[1] - min(config.memory, h_tilde.shape[1]) :]
        found.append(model.stack.norm(h))
    return model.projection(torch.cat(found, dim=1))


@pytest.mark.parametrize(("segment", "memory"), [(1, 3), (4, 0), (4, 6), (3, 100), (50, 5)])
def test_segments_are_those_of_the_paper_gradients_included(segment: int, memory: int) -> None:
    model, text = xl(segment, memory).requires_grad_(), tokens(2, 14)
    gradients = []
    for logits in (model(text), transcribed(model, text)):
        loss = log_likelihood(logits, text)
        gradients.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


def test_no_gradient_reaches_an_earlier_segment() -> None:
    """What was written there matters all the same, and so does how it is projected."""
    model = xl(segment=4, memory=4).requires_grad_()
    text = torch.arange(4, 12)[None]  # every token once
    later = model(text)[:, 4:]
    (gradient,) = torch.autograd.grad(later.sin().sum(), model.embeddings.weight)
    reached = (gradient != 0).any(-1)
    assert reached[text[0]].tolist() == [False] * 4 + [True] * 4
    for t in range(4):
        changed = text.clone()
        changed[0, t] = 15
        assert ((model(changed)[:, 4:] - later).abs().amax(-1) > 1e-9).all()


@pytest.mark.parametrize("memory", [0, 2, 11, 1000])
def test_it_may_remember_more_or_less_than_in_training(memory: int) -> None:
    model, text = xl(segment=4, memory=6), tokens(2, 21)
    features, _ = model.read(model.start(nothing(2), memory=memory), text)
    torch.testing.assert_close(model.projection(features), xl(segment=4, memory=memory)(text))


def test_text_is_read_in_pieces_of_any_lengths() -> None:
    model, text = xl(segment=4, memory=6), tokens(2, 27)
    state, found = model.start(nothing(2)), []
    for piece in text.split([3, 1, 4, 9, 2, 8], dim=1):
        features, state = model.read(state, piece)
        found.append(features)
    torch.testing.assert_close(torch.cat(found, dim=1), model.features(text))


def test_what_it_keeps_does_not_grow_with_the_text() -> None:
    model = xl(segment=4, memory=6)
    state = model.start(nothing(1))
    for t in range(40):
        _, state = model.step(state, tokens(1, 1, seed=t))
        assert all(cache.length <= 6 + 4 for cache in state.caches)


def test_recomputed_activations_give_the_same_gradients() -> None:
    """A layer then computes twice, with the memory that it had the first time."""
    text, gradients = tokens(2, 14), []
    for recompute in (False, True):
        model = xl(segment=4, memory=6).requires_grad_()
        if recompute:
            recompute_activations(model)
        log_likelihood(model(text), text).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


# Learning


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("memory", [0, 12])
def test_it_learns_what_only_memory_can_tell(memory: int, seed: int) -> None:
    """A token is that of ten positions before: further than a segment of eight reaches."""
    torch.manual_seed(seed)
    config = TransformerXLConfig(
        layers=1, d_model=32, d_ff=32, heads=1, dropout=0.0, segment=8, memory=memory
    )
    model = TransformerXL(config, VOCABULARY)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []

    def update(number: int) -> float:
        text = periodic(16, period=10, length=25, seed=number)
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits[:, 9:].flatten(0, 1), text[:, 10:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        return loss.item()

    if memory:
        assert learns(update, lambda: True, most=400, every=5, below=0.05)
    else:
        assert not learns(update, lambda: True, most=75, every=5, below=0.05)
        assert losses[-1] > 2.5  # chance is log 19 = 2.94
