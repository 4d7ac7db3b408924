"""ConvS2S: its equations, its decoding, its padding, and what training asks of a model."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from crosshead.bundle.weights import set_weights, weights_of
from crosshead.config import validate
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.errors import ConfigError, UserError
from crosshead.inspection import record_attention
from crosshead.layers.convolution import WeightNormLinear
from crosshead.models.convolutional import Convolutional, ConvolutionalConfig
from crosshead.models.registry import build_model
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import Example, collate
from crosshead.training.optimizer import Optimizer
from crosshead.training.setup import recompute_activations
from crosshead.training.updater import replica_of, seeded
from crosshead.vocabulary import BOS, EOS, PAD
from tests.learning import SEEDS, learns
from tests.models.decodable import SOURCES, DecodableTests, JoiningTests, check_arrivals
from tests.models.small_transformers import VOCABULARY, padded, tokens
from tests.parameters import mostly_slow
from tests.sequences import copy_task, reverse_task

TINY = ConvolutionalConfig(
    encoder_layers=2, decoder_layers=3, d_model=8, kernel=3, max_length=48, dropout=0.0
)
VARIANTS = {
    "kernel 3": TINY,
    "kernel 1": TINY.model_copy(update={"kernel": 1}),
    "kernel 5, untied": TINY.model_copy(update={"kernel": 5, "tie": "none"}),
    "additive score": TINY.model_copy(update={"score": "additive"}),
}


def model_of(config: ConvolutionalConfig, seed: int = 0) -> Convolutional:
    """A model in float64, its constants randomised so that each of them matters."""
    torch.manual_seed(seed)
    model = Convolutional(config, VOCABULARY, VOCABULARY).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def shifted(target: Tensor) -> Tensor:
    return torch.cat((torch.full_like(target[:, :1], BOS), target[:, :-1]), dim=1)


# The paper's equations, position by position


def written_out(model: Convolutional, source: list[int], target: list[int]) -> Tensor:
    """The features of one pair: Gehring et al. 2017, sections 3.1 to 3.4, as they are printed."""
    k, half = model.config.kernel, math.sqrt(0.5)

    def gated(linear: WeightNormLinear, window: list[Tensor]) -> Tensor:
        v, g = linear.direction, linear.length
        norms = torch.stack([row.norm() for row in v])
        a, b = ((g / norms)[:, None] * v @ torch.cat(window) + linear.bias).chunk(2)
        return a / (1 + torch.exp(-b))

    def embedded(side: torch.nn.Module, ids: list[int]) -> list[Tensor]:
        return [side.weight[w] + side.positions.table[i] for i, w in enumerate(ids)]

    zero = torch.zeros(model.config.d_model, dtype=torch.float64)
    e = embedded(model.source_embeddings, source)
    z = [model.source_map(each) for each in e]
    for layer in model.encoder:
        row = [zero] * (k // 2) + z + [zero] * (k // 2)
        z = [half * (gated(layer.convolution.linear, row[i : i + k]) + z[i]) for i in range(len(z))]
    z = [model.memory_map(each) for each in z]
    m = len(source)
    g = embedded(model.target_embeddings, target)
    h = [model.target_map(each) for each in g]
    for layer in model.decoder:
        row = [zero] * (k - 1) + h
        above = []
        for i in range(len(h)):
            state = half * (gated(layer.convolution.linear, row[i : i + k]) + h[i])
            d = half * (layer.cross_attention.query(state) + g[i])
            if model.config.score == "additive":  # Bahdanau et al. 2015, section A.1.2
                scores = [layer.cross_attention.score.v[0] @ torch.tanh(d + z[j]) for j in range(m)]
            else:
                scores = [d @ z[j] for j in range(m)]
            a = [torch.exp(score) / sum(map(torch.exp, scores)) for score in scores]
            c = sum(a[j] * half * (z[j] + e[j]) for j in range(m)) * m * math.sqrt(1 / m)
            above.append(half * (state + c))
        h = above
    return torch.stack([model.output_map(each) for each in h])


@pytest.mark.parametrize("name", VARIANTS)
def test_features_are_those_of_the_equations(name: str) -> None:
    model = model_of(VARIANTS[name])
    source, target = tokens(6), tokens(5, seed=1)
    expected = written_out(model, source.tolist(), target.tolist())
    torch.testing.assert_close(model.features(source[None], target[None])[0], expected)


def test_gradients_of_the_encoder_are_divided_by_the_number_of_attentions() -> None:
    """Section 3.4; those of what is not the encoder's are the ones of the equations."""
    model = model_of(TINY.model_copy(update={"tie": "none"}))
    source, target = tokens(6), tokens(5, seed=1)
    weighting = torch.randn(5, TINY.d_model, dtype=torch.float64)
    named = {name: p for name, p in model.named_parameters() if not name.startswith("projection")}
    (written_out(model, source.tolist(), target.tolist()) * weighting).sum().backward()
    expected = {name: p.grad for name, p in named.items()}
    model.zero_grad()
    (model.features(source[None], target[None])[0] * weighting).sum().backward()
    for name, parameter in named.items():
        divisor = 1
        if name.startswith(("encoder", "source_map", "memory_map")):
            divisor = TINY.decoder_layers
        if not name.startswith("source_embeddings"):  # these are reached around the encoder too
            torch.testing.assert_close(parameter.grad * divisor, expected[name], msg=name)


# Decoding


class TestConvolutional(DecodableTests, JoiningTests):
    @pytest.fixture(params=VARIANTS)
    def model(self, request: pytest.FixtureRequest) -> Convolutional:
        return model_of(VARIANTS[request.param]).requires_grad_(False)


def test_a_sentence_does_not_notice_when_others_come_and_go() -> None:
    check_arrivals(model_of(TINY).requires_grad_(False))


def test_a_state_that_was_stepped_or_selected_from_stays_as_it_was() -> None:
    model = model_of(TINY)
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    expected = model.features(source, target)
    _, state = model.step(model.start(source), target[:, :3])
    model.step(state.select(torch.tensor([1, 0])), tokens(2, 1, seed=9))
    for _ in range(2):
        features, _ = model.step(state, target[:, 3:])
        torch.testing.assert_close(features, expected[:, 3])


def test_rows_of_a_sentence_share_its_memory() -> None:
    state = model_of(TINY).start(padded(SOURCES))
    expanded = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert expanded.memory.layers is state.memory.layers
    assert expanded.memory.rows_per_sentence == 2


# Padding and bounds


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_and_company_change_nothing(name: str) -> None:
    model = model_of(VARIANTS[name])
    sources, targets = [tokens(6), tokens(3, seed=1)], [tokens(2, seed=2), tokens(5, seed=3)]
    together = model.features(padded(sources), padded(targets))
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = model.features(source[None], target[None])[0]
        torch.testing.assert_close(together[row, : len(target)], alone)


def test_no_position_sees_what_is_written_later() -> None:
    model, source, target = model_of(TINY), tokens(1, 5), tokens(1, 6, seed=1)
    other = target.clone()
    other[0, 4] = (other[0, 4] - 3) % (VOCABULARY - 4) + 4
    before, after = model.features(source, target), model.features(source, other)
    torch.testing.assert_close(after[:, :4], before[:, :4], rtol=0, atol=0)
    assert (after[:, 4:] != before[:, 4:]).any(dim=-1).all()


def test_positions_end_with_an_error_that_names_both_lengths() -> None:
    model = model_of(TINY)
    assert TINY.most_positions == 48
    with pytest.raises(UserError, match=r"49 tokens .* 48 learned positions"):
        model(tokens(1, 49), tokens(1, 3))
    _, state = model.step(model.start(tokens(1, 3)), tokens(1, 48))
    with pytest.raises(UserError, match=r"49 tokens .* 48 learned positions"):
        model.step(state, tokens(1, 1))


# Configuration and weights


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kernel": 4}, "kernel: expected an odd number, because windows are centred, found 4"),
        ({"kernel": 0}, "kernel: .*1 or more"),
        ({"decoder_layers": 0}, "decoder_layers: .*1 or more"),
        ({"dropout": 0.001}, "dropout: .*cannot be drawn"),
        ({"heads": 4}, "unknown key 'heads'"),
        ({"score": "cosine"}, "score: .*'dot' or 'additive'"),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(ConvolutionalConfig, values)


def test_a_bundle_that_names_no_score_has_the_dot_product() -> None:
    values = TINY.model_dump(mode="json")
    del values["score"]
    assert validate(ConvolutionalConfig, values) == TINY
    assert weights_of(model_of(TINY)).keys() == weights_of(model_of(VARIANTS["kernel 1"])).keys()


def test_three_way_tying_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="one joint vocabulary, found 20 source and 30 target"):
        Convolutional(TINY, 20, 30)
    assert Convolutional(TINY.model_copy(update={"tie": "two-way"}), 20, 30)


def test_a_model_can_be_built_filled_and_built_again() -> None:
    config = validate(ConvolutionalConfig, TINY.model_dump(mode="json"))
    assert config == TINY
    torch.manual_seed(1)
    model, other = build_model(config, VOCABULARY, VOCABULARY), build_model(config, 23, 23)
    set_weights(other, weights_of(model))
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    torch.testing.assert_close(other(source, target), model(source, target), rtol=0, atol=0)
    with torch.device("meta"):
        empty = build_model(config, VOCABULARY, VOCABULARY)
    shapes = {name: p.shape for name, p in empty.named_parameters()}
    assert shapes == {name: weight.shape for name, weight in weights_of(model).items()}


def test_the_variance_stays_and_the_first_loss_is_that_of_knowing_nothing() -> None:
    """Sections 3.4 and 3.5: deep stacks begin with features as large as embeddings."""
    torch.manual_seed(0)
    config = TINY.model_copy(
        update={"encoder_layers": 8, "decoder_layers": 8, "d_model": 128, "tie": "none"}
    )
    model = Convolutional(config, 1000, 1000)
    source, target = torch.randint(4, 1000, (2, 8, 12)).unbind()
    features = model.features(source, target)
    embedded = model.target_embeddings(target)
    assert 0.3 < features.var() / embedded.var() < 3
    loss = torch.nn.functional.cross_entropy(
        model.projection(features).flatten(0, 1), target.flatten()
    )
    assert loss.item() == pytest.approx(math.log(1000), rel=0.02)


# What training and inspection ask of a model


def examples() -> list[Example]:
    return copy_task(40, VOCABULARY, 6, 0)


def gradients(model: Convolutional) -> dict[str, Tensor]:
    """Those of a batch, dropout included; dropped afterwards."""
    batch = collate(examples(), range(8))
    with seeded(3, torch.device("cpu")):
        token_loss(model, batch, LabelSmoothing(0.1)).sums["loss"].backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def test_a_replica_shares_weights_and_has_gradients_of_its_own() -> None:
    model = Convolutional(TINY.model_copy(update={"dropout": 0.2}), VOCABULARY, VOCABULARY)
    replica = replica_of(model)
    expected = gradients(model)
    assert expected.keys() == dict(model.named_parameters()).keys()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    changed = gradients(replica)
    assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close(changed, gradients(model), rtol=0, atol=0)
    assert not torch.equal(changed["memory_map.direction"], expected["memory_map.direction"])


def test_gradients_are_the_same_where_activations_are_computed_again() -> None:
    model = Convolutional(TINY.model_copy(update={"dropout": 0.2}), VOCABULARY, VOCABULARY)
    expected = gradients(model)
    recompute_activations(model)
    torch.testing.assert_close(gradients(model), expected)


def test_it_trains_in_bfloat16() -> None:
    torch.manual_seed(0)
    model = Convolutional(TINY.model_copy(update={"d_model": 32}), VOCABULARY, VOCABULARY)
    optimizer = Optimizer(
        model.to(torch.bfloat16), TrainConfig(max_updates=20, learning_rate=0.004)
    )
    batch, losses = collate(examples(), range(40)), []
    for _ in range(20):
        loss = token_loss(model, batch, LabelSmoothing(0.0))
        losses.append(loss.sums["nll"].item() / loss.count)
        optimizer.backward(loss.sums["loss"] / loss.count)
        assert optimizer.step(0.01) is not None
    assert losses[-1] < 0.8 * losses[0]


def test_the_attention_of_every_layer_can_be_recorded() -> None:
    model = model_of(TINY)
    with record_attention(model) as recorded:
        model(padded(SOURCES), tokens(3, 5))
    assert list(recorded) == [f"decoder.{layer}.cross_attention" for layer in range(3)]
    for [weights] in recorded.values():
        assert weights.shape == (3, 1, 5, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 5, dtype=torch.float64))
        assert (weights.transpose(1, 3)[padded(SOURCES) == PAD] == 0).all()


# Learning


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("task", "score"),
    mostly_slow(
        [(copy_task, "dot"), (reverse_task, "dot"), (copy_task, "additive")], [(copy_task, "dot")]
    ),
    ids=["copy", "reverse", "copy, additive score"],
)
def test_it_learns(
    task: Callable[[int, int, int, int], list[Example]], score: str, seed: int
) -> None:
    """Every sequence that training did not show comes out right, to the last token."""
    vocabulary, longest = 9, 5
    made = task(5000, vocabulary, longest, seed)
    shown, rest = made[:4400], made[4400:]
    seen = {tuple(source) for source, _ in shown}
    unseen = [example for example in rest if tuple(example[0]) not in seen]
    assert len(unseen) > 100
    torch.manual_seed(seed)
    config = ConvolutionalConfig(
        encoder_layers=2, decoder_layers=2, d_model=64, dropout=0.0, score=score
    )
    model = Convolutional(config, vocabulary, vocabulary)
    optimizer = Optimizer(model, TrainConfig(max_updates=1, learning_rate=0.004))

    def update(number: int) -> float:
        batch = collate(shown, torch.randint(len(shown), (64,)).tolist())
        sums = token_loss(model, batch, LabelSmoothing(0.0))
        optimizer.backward(sums.sums["loss"] / sums.count)
        optimizer.step(0.004 / (1 + number / 100))
        return sums.sums["loss"].item() / sums.count

    batch = collate(unseen, range(len(unseen)))
    limits = torch.full((len(unseen),), longest + 5)

    def learned() -> bool:
        specials = Specials(BOS, EOS, (PAD, BOS))
        found = greedy_search(model.eval(), batch.source, limits, specials, 0.0)
        model.train()
        return [best[0].tokens for best in found] == [list(target) for _, target in unseen]

    assert learns(update, learned, most=1000)
