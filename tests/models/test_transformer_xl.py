import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.masks import causal
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.layers.encoder import EncoderLayer
from crosshead.models.base import ModelConfig, TokenModelConfig
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer_xl import TransformerXL, TransformerXLConfig
from crosshead.training.setup import recompute_activations
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
    x = model.embeddings(text)
    for layer in model.stack.layers:
        x = layer(x, causal.dense(length, length))
    return model.projection(model.stack.norm(x))


# Configuration


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"segment": 0}, "segment: .*1 or more"),
        ({"memory": -1}, "memory: .*0 or more"),
        (
            {"positions": "learned"},
            "^positions: transformer-xl has fixed positions, .* leave positions",
        ),
        ({"score": "cosine"}, "^score: transformer-xl has a fixed score, .* leave score out"),
        (
            {"pattern": "window", "radius": 3},
            "^pattern: transformer-xl has a fixed pattern, .* set segment",
        ),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(TransformerXLConfig, values)


@pytest.mark.parametrize(
    "other",
    [
        each
        for each in CONFIGS.values()
        if issubclass(each, TokenModelConfig) and each is not TransformerXLConfig
    ],
)
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


def by_distance(distances: Tensor, width: int) -> Tensor:
    """R of section 3.3: all sines of a distance, then all cosines."""
    angles = distances[..., None] / 10000 ** (torch.arange(0, width, 2).double() / width)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def attended(layer: EncoderLayer, seen: Tensor, new: int) -> Tensor:
    """Section 3.3 written out pair by pair: what the last `new` of the vectors `seen` gather."""
    attention, score = layer.attention, layer.attention.score
    heads, width = score.u.shape
    query = attention.query(seen[:, -new:]).unflatten(-1, (heads, width))
    keys, values = attention.key_value(seen).split(heads * width, dim=-1)
    keys, values = keys.unflatten(-1, (heads, width)), values.unflatten(-1, (heads, width))
    last = torch.arange(seen.shape[1])
    distance = last[-new:, None] - last
    relative = torch.einsum("ijd,hde->ijhe", by_distance(distance, seen.shape[-1]), score.weight)
    by_content = torch.einsum("bihe,bjhe->bhij", query + score.u, keys)
    by_place = torch.einsum("bihe,ijhe->bhij", query + score.v, relative)
    scores = ((by_content + by_place) / width**0.5).masked_fill(distance < 0, -torch.inf)
    gathered = torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), values)
    return attention.output(gathered.flatten(2))


def transcribed(model: TransformerXL, text: Tensor) -> Tensor:
    """Section 3.2 as the authors compute it (`mem_transformer.py` in kimiyoung/transformer-xl).

    A memory holds hidden states. A pre-norm layer normalises them together with its input, so that
    its norm learns from what is remembered; a post-norm layer takes both as they are.
    """
    config, found = model.config, []
    memories = [torch.zeros(len(text), 0, config.d_model).double() for _ in model.layers()]
    for segment in text.split(config.segment, dim=1):
        h, new = config.d_model**0.5 * model.embeddings.weight[segment], segment.shape[1]
        for number, layer in enumerate(model.layers()):
            before_attention = layer.add_norm_attention.norm
            before_network = layer.add_norm_feedforward.norm
            h_tilde = torch.cat((memories[number], h), dim=1)
            kept = min(config.memory, h_tilde.shape[1])
            memories[number] = h_tilde[:, h_tilde.shape[1] - kept :].detach()
            if config.norm == "pre":
                h = h + attended(layer, before_attention(h_tilde), new)
                h = h + layer.feedforward(before_network(h))
            else:
                h = before_attention(h + attended(layer, h_tilde, new))
                h = before_network(h + layer.feedforward(h))
        found.append(model.stack.norm(h))
    return model.projection(torch.cat(found, dim=1))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("segment", "memory"), [(1, 3), (4, 0), (4, 6), (3, 100), (50, 5)])
def test_segments_are_those_of_the_authors_gradients_included(
    segment: int, memory: int, norm: str
) -> None:
    model, text = xl(segment, memory, norm=norm).requires_grad_(), tokens(2, 14)
    names, parameters = zip(*model.named_parameters(), strict=True)
    results = []
    for logits in (model(text), transcribed(model, text)):
        gradients = torch.autograd.grad(log_likelihood(logits, text), parameters)
        results.append({"logits": logits} | dict(zip(names, gradients, strict=True)))
    found, expected = results
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], msg=f"{{}} of {name}".format)


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
