"""The recurrent models themselves; decoding and learning have files of their own."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.config import validate
from crosshead.errors import ConfigError, UserError
from crosshead.inspection import record_attention
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.tasks.registry import load_bundle
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.training.updater import replica_of
from crosshead.vocabulary import PAD
from tests.models.small_recurrents import KINDS, TINY, model_of, tiny
from tests.models.small_transformers import VOCABULARY, padded, tokens

EVERY = pytest.mark.parametrize("name", KINDS)

# Configuration


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 7}, "d_model 7 is odd.* bidirectional = false"),
        ({"attention": "bahdanau", "input_feeding": True}, "input_feeding .*'bahdanau'"),
        ({"encoder_layers": 1}, "'luong-general' each decoder layer .* 1 encoder_layers and 2"),
        ({"attention": "none", "decoder_layers": 3}, "'none' .* 2 encoder_layers and 3"),
        ({"attention": "luong"}, "attention: expected .*'luong-dot'"),
        ({"cell": "rnn"}, "cell: expected 'lstm' or 'gru'"),
        ({"attention": "luong-local", "radius": 0}, "radius: .*1 or more"),
        ({"radius": 3}, "radius 3 has no meaning for attention 'luong-general', only for 'luong-l"),
        (
            {"attention": "luong-local", "max_length": 9},
            "max_length 9 .* only for 'luong-location'",
        ),
        ({"dropout": 0.001}, "dropout: .*cannot be drawn"),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(RecurrentConfig, values)


def test_an_odd_width_reads_one_way() -> None:
    model = model_of(tiny(d_model=7, bidirectional=False))
    assert model(tokens(1, 4), tokens(1, 3)).shape == (1, 3, VOCABULARY)


def test_its_shape_in_words() -> None:
    assert TINY.shape() == (
        "2+2 LSTM layers, bidirectional encoder, d_model 12, luong-general attention"
    )
    assert tiny(attention="none", cell="gru", bidirectional=False).shape() == (
        "2+2 GRU layers, d_model 12, no attention"
    )


def test_location_attention_ends_with_an_error_that_names_both_lengths() -> None:
    model = model_of(KINDS["location"])
    assert (model.config.most_source, model.config.most_positions) == (9, None)
    assert (TINY.most_source, TINY.most_positions) == (None, None)
    model(tokens(1, 9), tokens(1, 3))
    with pytest.raises(UserError, match=r"10 tokens .* 9 positions"):
        model(tokens(1, 10), tokens(1, 3))


# Identities


@EVERY
def test_no_position_sees_a_later_one(name: str) -> None:
    model = model_of(KINDS[name])
    source, target = tokens(1, 5), tokens(1, 6, seed=1)
    embedded = model.target_embeddings(target).requires_grad_()
    model.target_embeddings.forward = lambda tokens, start=0: embedded  # type: ignore[method-assign]
    logits = model(source, target)
    for t in range(6):
        (gradient,) = torch.autograd.grad(logits[0, t].sin().sum(), embedded, retain_graph=True)
        reached = (gradient[0] != 0).any(-1)
        assert reached.tolist() == [position <= t for position in range(6)]


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("none")])
def test_without_attention_the_final_state_is_all_that_is_seen_of_the_source(name: str) -> None:
    """As many numbers for a long source as for a short one, and no way around them."""
    model = model_of(KINDS[name])
    source, other, target = tokens(2, 9), tokens(2, 4, seed=1), tokens(2, 5, seed=2)
    state, short = model.start(source), model.start(other)
    assert not state.memory.layers
    assert [part.shape for part in state.decoder.hidden] == [
        part.shape for part in short.decoder.hidden
    ]
    short.decoder = state.decoder
    features, _ = model.step(short, target)
    torch.testing.assert_close(features, model.features(source, target)[:, -1])
    assert not torch.allclose(features, model.features(other, target)[:, -1])


@EVERY
def test_every_source_position_matters(name: str) -> None:
    model = model_of(KINDS[name] if "local" not in name else tiny(attention="luong-local"))
    source, target = tokens(1, 5), tokens(1, 3, seed=1)
    before = model(source, target)
    for position in range(5):
        changed = source.clone()
        changed[0, position] = 4 + (source[0, position] - 3) % (VOCABULARY - 4)
        assert ((model(changed, target) - before).abs().amax(-1) > 1e-9).all()


def test_a_source_read_from_its_end_is_the_reversed_source_in_its_own_order() -> None:
    """One way, so that the direction shows; the memory lines up with the source nevertheless."""
    forwards = model_of(tiny(bidirectional=False))
    backwards = Recurrent(
        tiny(bidirectional=False, reverse_source=True), VOCABULARY, VOCABULARY
    ).double()
    backwards.load_state_dict(forwards.state_dict())
    rows = [tokens(6), tokens(3, seed=1), tokens(1, seed=2)]
    read, mask = backwards.encode(padded(rows))
    turned, same = forwards.encode(padded([row.flip(0) for row in rows]))
    assert torch.equal(mask, same)
    torch.testing.assert_close(read.final, turned.final)
    for row, ids in enumerate(rows):
        length = len(ids)
        torch.testing.assert_close(read.memory[row, :length], turned.memory[row, :length].flip(0))


def test_forward_is_the_projection_of_the_features() -> None:
    model = model_of(KINDS["bahdanau, gru"])
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    torch.testing.assert_close(
        model.projection(model.features(source, target)), model(source, target)
    )


# Training


def gradients(model: Recurrent) -> dict[str, Tensor]:
    model(padded([tokens(4), tokens(0)]), tokens(2, 3)).square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@EVERY
def test_every_weight_is_trained_even_where_a_source_is_empty(name: str) -> None:
    torch.manual_seed(0)
    model = Recurrent(KINDS[name], VOCABULARY, VOCABULARY)
    for parameter, gradient in gradients(model).items():
        assert gradient is not None and torch.isfinite(gradient).all(), parameter
        reads_only_what_was_said = name.endswith("fed")  # nothing, at first
        assert gradient.any() or reads_only_what_was_said, parameter


@pytest.mark.parametrize("name", ["none, gru", "bahdanau, lstm", "general, fed"])
def test_a_replica_shares_weights_and_has_gradients_of_its_own(name: str) -> None:
    """PyTorch's recurrent layers hold their weights in lists besides."""
    torch.manual_seed(0)
    model = Recurrent(KINDS[name], VOCABULARY, VOCABULARY)
    replica = replica_of(model)
    assert isinstance(replica, Recurrent)
    found = gradients(replica)
    assert all(parameter.grad is None for parameter in model.parameters())
    for parameter, expected in gradients(model).items():
        torch.testing.assert_close(found[parameter], expected)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.5)
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    torch.testing.assert_close(replica(source, target), model(source, target))


@pytest.mark.parametrize("name", ["none, lstm", "bahdanau, gru", "local, fed"])
def test_it_trains_in_bfloat16(name: str) -> None:
    """Within what its 8 bits make of the loss and its gradients."""
    torch.manual_seed(0)
    model = Recurrent(KINDS[name], VOCABULARY, VOCABULARY)
    expected = gradients(model)
    narrow = Recurrent(KINDS[name], VOCABULARY, VOCABULARY)
    narrow.load_state_dict(model.state_dict())
    for parameter, gradient in gradients(narrow.to(torch.bfloat16)).items():
        assert gradient.dtype == torch.bfloat16
        error = (gradient.float() - expected[parameter]).norm()
        assert error < 0.15 * expected[parameter].norm() + 0.01, parameter


@pytest.mark.parametrize(("tie", "matrices"), [("three-way", 1), ("two-way", 2), ("none", 3)])
def test_tying_shares_matrices(tie: str, matrices: int) -> None:
    model = Recurrent(tiny(tie=tie), VOCABULARY, VOCABULARY)
    source, target = model.source_embeddings.weight, model.target_embeddings.weight
    assert len({id(weight) for weight in (source, target, model.projection.weight)}) == matrices
    assert (target is model.projection.weight) == (tie != "none")
    assert all((weight[PAD] == 0).all() for weight in (source, target, model.projection.weight))


def test_three_way_tying_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="20 source and 30 target"):
        Recurrent(TINY, 20, 30)
    two_way = Recurrent(tiny(tie="two-way"), 20, 30)
    assert two_way(tokens(1, 3) % 20, tokens(1, 2)).shape == (1, 2, 30)


def test_dropout_is_on_embeddings_between_layers_and_on_features() -> None:
    model = Recurrent(tiny(dropout=0.4), VOCABULARY, VOCABULARY)
    shares = [module.p for module in model.modules() if type(module).__name__ == "Dropout"]
    assert shares == [0.4] * 5  # of both sides embeddings and stack, and the features
    source, target = tokens(1, 4), tokens(1, 3)
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))


@EVERY
def test_its_attention_can_be_recorded(name: str) -> None:
    """A call a step where there is a loop, else one; the weights of each position sum to one.

    Those of local-p do before its Gaussian.
    """
    model = model_of(KINDS[name])
    source, target = padded([tokens(5), tokens(2)]), tokens(2, 4, seed=1)
    with record_attention(model) as recorded:
        model.features(source, target)
    if name.startswith("none"):
        assert not recorded
        return
    [(module, calls)] = recorded.items()
    assert module.endswith("cross_attention")
    weights = torch.cat(calls, dim=2)
    assert weights.shape == (2, 1, 4, 5)
    sums = weights.sum(-1)
    if name.startswith("local"):
        assert ((sums > 0) & (sums < 1)).all()
    else:
        torch.testing.assert_close(sums, torch.ones(2, 1, 4).double())
    assert not weights[1, ..., 2:].any()


@pytest.mark.parametrize("name", ["none, reversed, one way", "local, fed"])
def test_a_bundle_gives_it_back(name: str, tmp_path: Path) -> None:
    """Its configuration, its weights, and which of them are one matrix."""
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), ["abcdef"])
    size = tokenizer.vocab_size
    model = Recurrent(KINDS[name], size, size).eval()
    config = TextBundleConfig(
        model=KINDS[name],
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=10,
    )
    save_bundle(tmp_path, TextBundle(config, model, tokenizer, tokenizer), "# Card\n")
    loaded = load_bundle(tmp_path)
    assert loaded.config.model == KINDS[name]
    source, target = tokens(2, 5) % size, tokens(2, 3, seed=1) % size
    assert torch.equal(loaded.model(source, target), model(source, target))
    assert len(list(loaded.model.parameters())) == len(list(model.parameters()))


def test_only_positions_of_luong_location_limit_the_source() -> None:
    for kind, most in (("luong-location", 1024), ("luong-general", None), ("none", None)):
        assert validate(RecurrentConfig, {"attention": kind}).most_source == most
