"""The model itself; decoding and parity with other people's code have files of their own."""

import pytest
import torch
from torch.nn import functional as F

from crosshead.attention.attend import Attention, explicit, sdpa
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import BOS, PAD
from tests.models.small_transformers import (
    TINY,
    VARIANTS,
    VOCABULARY,
    model_of,
    padded,
    shifted,
    tokens,
)

# Table 3 of Vaswani et al. 2017


def parameter_count(config: TransformerConfig, vocabulary: int) -> int:
    """By arithmetic, for post-norm, no output bias and three-way tying."""
    d, ff, heads = config.d_model, config.d_ff, config.heads
    d_key, d_value = config.d_key or d // heads, config.d_value or d // heads
    attention = heads * (2 * d_key + d_value) * (d + 1) + heads * d_value * d + d
    feedforward = 2 * d * ff + ff + d
    norm = 2 * d
    encoder_layer = attention + feedforward + 2 * norm
    decoder_layer = 2 * attention + feedforward + 3 * norm
    positions = 2 * (config.most_positions or 0) * d
    return (
        vocabulary * d
        + config.encoder_layers * encoder_layer
        + config.decoder_layers * decoder_layer
        + positions
    )


def built_count(config: TransformerConfig, vocabulary: int) -> int:
    """Of a model that is really built, on a device that holds no numbers."""
    with torch.device("meta"):
        model = Transformer(config, vocabulary, vocabulary)
    return sum(parameter.numel() for parameter in model.parameters())


BASE = TransformerConfig()
BIG = TransformerConfig(d_model=1024, d_ff=4096, heads=16, dropout=0.3)
JOINT = 37_000


@pytest.mark.parametrize(
    ("config", "count", "millions", "printed"),
    [(BASE, 63_082_496, 63.1, 65), (BIG, 214_245_376, 214.2, 213)],
    ids=["base", "big"],
)
def test_parameter_counts_of_base_and_big(
    config: TransformerConfig, count: int, millions: float, printed: int
) -> None:
    assert built_count(config, JOINT) == parameter_count(config, JOINT) == count
    assert round(count / 1e6, 1) == millions
    assert abs(count / 1e6 / printed - 1) < 0.03


TABLE_3: list[tuple[str, dict[str, object], int | None]] = [
    ("A 1 head", {"heads": 1, "d_key": 512, "d_value": 512}, None),
    ("A 4 heads", {"heads": 4, "d_key": 128, "d_value": 128}, None),
    ("A 16 heads", {"heads": 16, "d_key": 32, "d_value": 32}, None),
    ("A 32 heads", {"heads": 32, "d_key": 16, "d_value": 16}, None),
    ("B d_key 16", {"d_key": 16}, 58),
    ("B d_key 32", {"d_key": 32}, 60),
    ("C 2 layers", {"encoder_layers": 2, "decoder_layers": 2}, 36),
    ("C 4 layers", {"encoder_layers": 4, "decoder_layers": 4}, 50),
    ("C 8 layers", {"encoder_layers": 8, "decoder_layers": 8}, 80),
    ("C d_model 256", {"d_model": 256, "d_key": 32, "d_value": 32}, 28),
    ("C d_model 1024", {"d_model": 1024, "d_key": 128, "d_value": 128}, 168),
    ("C d_ff 1024", {"d_ff": 1024}, 53),
    ("C d_ff 4096", {"d_ff": 4096}, 90),
    ("D dropout 0.0", {"dropout": 0.0}, None),
    ("D dropout 0.2", {"dropout": 0.2}, None),
    ("E learned positions", {"positions": "learned"}, None),
    ("big", {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3}, 213),
]


@pytest.mark.parametrize(
    ("changes", "printed"), [row[1:] for row in TABLE_3], ids=[row[0] for row in TABLE_3]
)
def test_every_row_of_table_3_can_be_built(changes: dict[str, object], printed: int | None) -> None:
    """Printed counts are about 2 M above arithmetic throughout: the vocabulary was a little larger.

    The difference from base is free of that, wherever the width of the embeddings is base's.
    """
    config = validate(TransformerConfig, changes)
    count = built_count(config, JOINT)
    assert count == parameter_count(config, JOINT)
    if printed is None:
        return
    assert abs(count / 1e6 / printed - 1) < 0.07
    if config.d_model == 512:
        difference = (count - parameter_count(BASE, JOINT)) / 1e6
        assert abs(difference - (printed - 65)) <= 1.0  # both are rounded to millions


def test_row_a_keeps_the_size_of_base() -> None:
    """Heads of d_model / heads each: the same matrices, cut differently."""
    for _, changes, _ in TABLE_3[:4]:
        config = validate(TransformerConfig, changes)
        assert built_count(config, JOINT) == built_count(BASE, JOINT)


# Configuration


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 100, "heads": 8}, "d_model 100 is not divisible by heads 8"),
        ({"heads": 4, "kv_heads": 3}, "heads 4 is not divisible by kv_heads 3; choose kv_heads"),
        ({"d_model": 100, "heads": 8, "d_key": 16}, "give d_key and d_value"),
        ({"dropout": 1.0}, "dropout: .*less than 1"),
        ({"dropout": 0.001}, "dropout: .*0.001 cannot be drawn.* 1/256"),
        ({"activation_dropout": 0.999}, "activation_dropout: .*0.999 cannot be drawn"),
        ({"encoder_layers": 0}, "encoder_layers: .*1 or more"),
        ({"norm": "sandwich"}, "norm: .*'post' or 'pre'"),
        ({"positions": "absolute"}, "positions: .*'sinusoidal'"),
        (
            {"max_length": 9},
            "max_length 9 has no meaning for positions 'sinusoidal', only for 'learned'; leave it",
        ),
        ({"dmodel": 8}, "unknown key 'dmodel'; did you mean 'd_model'"),
    ],
)
def test_impossible_shapes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(TransformerConfig, values)


def test_heads_need_not_divide_the_width_when_both_widths_are_given() -> None:
    config = TINY.model_copy(update={"heads": 3, "d_key": 5, "d_value": 7})
    assert model_of(config)(tokens(1, 4), tokens(1, 3)).shape == (1, 3, VOCABULARY)


def test_start_token() -> None:
    assert TINY.start_token == BOS
    assert VARIANTS["marian"].start_token == PAD


# Initialisation and tying


def test_initial_variances_are_as_documented() -> None:
    """Glorot-uniform matrices by their own fans, N(0, 1/d_model) embeddings, biases 0, norms 1.

    What ends a residual branch is smaller by 1/sqrt(2 L): here 1/2 in the encoder, 1/sqrt(6) in the
    decoder.
    """
    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=2, decoder_layers=3, d_model=128, d_ff=256, heads=4, d_key=16, tie="none"
    )
    model = Transformer(config, 1000, 900)
    seen = 0
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (parameter == 1).all(), name
        elif parameter.dim() == 1:
            assert (parameter == 0).all(), name
        elif name.endswith("embeddings.weight") or name == "projection.weight":
            assert 0.97 < parameter[1:].var() * 128 < 1.03, name
            assert (parameter[PAD] == 0).all(), name
        else:
            parts = parameter.split((64, 128)) if "key_value" in name else (parameter,)
            ends_a_branch = "output." in name or "outer." in name
            layers = 2 if name.startswith("encoder") else 3
            for part in parts:
                expected = 2 / sum(part.shape) / (2 * layers if ends_a_branch else 1)
                assert 0.94 < part.var() / expected < 1.06, name
                seen += 1
    assert seen == 2 * (4 + 2) + 3 * (2 * 4 + 2)


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_an_encoder_begins_with_positions_that_differ(kind: str) -> None:
    """Else cross-attention, whose choice is between them, gets no gradient to learn to choose.

    With the embeddings alike in nothing but their positions, two outputs of a sentence are on
    average alike by less than half (cosine), at the shape that is worst: small and deep.
    """
    torch.manual_seed(0)
    config = TransformerConfig(d_model=64, d_ff=128, heads=4, dropout=0.0, norm=kind)
    memory, _ = Transformer(config, 500, 500).encode(torch.randint(4, 500, (8, 12)))
    directions = F.normalize(memory, dim=-1)
    alike = directions @ directions.transpose(1, 2)
    others = ~torch.eye(12, dtype=torch.bool)
    assert alike[:, others].mean() < 0.5


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_initial_logits_are_of_unit_variance(kind: str) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(d_model=64, d_ff=128, heads=4, norm=kind), 500, 500)
    logits = model.eval()(torch.randint(4, 500, (4, 9)), torch.randint(4, 500, (4, 8)))
    assert 0.5 < logits.var() < 2


@pytest.mark.parametrize(("tie", "matrices"), [("three-way", 1), ("two-way", 2), ("none", 3)])
def test_tying_shares_storage_and_gradients(tie: str, matrices: int) -> None:
    model = Transformer(TINY.model_copy(update={"tie": tie}), VOCABULARY, VOCABULARY)
    source, target = model.source_embeddings.weight, model.target_embeddings.weight
    output = model.projection.weight
    assert len({id(weight) for weight in (source, target, output)}) == matrices
    assert (target is output) == (tie != "none")
    assert (source is target) == (tie == "three-way")
    big = sum(parameter.shape[0] == VOCABULARY for parameter in model.parameters())
    assert big == matrices
    # Only id 5 is read as source and only id 6 as target; every id is a possible output.
    model(torch.full((1, 3), 5), torch.full((1, 2), 6)).square().sum().backward()
    expected = {"three-way": (True, True), "two-way": (False, True), "none": (False, False)}[tie]
    assert ((source.grad[7] != 0).any(), (target.grad[7] != 0).any()) == expected
    assert (source.grad[5] != 0).any()
    assert (target.grad[6] != 0).any()
    assert (output.grad[7] != 0).any()


def test_a_tied_gradient_is_the_sum_of_the_untied_ones() -> None:
    torch.manual_seed(0)
    tied = Transformer(TINY, VOCABULARY, VOCABULARY).double()
    loose = Transformer(TINY.model_copy(update={"tie": "none"}), VOCABULARY, VOCABULARY).double()
    loose.load_state_dict(tied.state_dict())
    source, target = tokens(3, 5, seed=1), tokens(3, 4, seed=2)
    for model in (tied, loose):
        model(source, target).sin().sum().backward()
    parts = (loose.source_embeddings, loose.target_embeddings, loose.projection)
    torch.testing.assert_close(tied.projection.weight.grad, sum(part.weight.grad for part in parts))


def test_tying_survives_loading_and_moving() -> None:
    model = Transformer(TINY, VOCABULARY, VOCABULARY)
    model.load_state_dict(model.state_dict())
    model = model.double()
    assert model.source_embeddings.weight is model.projection.weight


def test_three_way_tying_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="20 source and 30 target"):
        Transformer(TINY, 20, 30)
    two_way = Transformer(TINY.model_copy(update={"tie": "two-way"}), 20, 30)
    assert two_way(tokens(1, 3) % 20, tokens(1, 2)).shape == (1, 2, 30)


# Identities


def test_padding_gets_no_gradient_and_no_nan_even_when_a_source_is_empty() -> None:
    torch.manual_seed(0)
    model = Transformer(TINY.model_copy(update={"tie": "none"}), VOCABULARY, VOCABULARY)
    source = padded([tokens(4), tokens(0)])
    assert (source[1] == PAD).all()
    model(source, tokens(2, 3)).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert (model.source_embeddings.weight.grad[PAD] == 0).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_no_position_sees_a_later_one(name: str) -> None:
    """The logits at t have a gradient with respect to target embeddings up to t, and no further."""
    model = model_of(VARIANTS[name])
    source, target = tokens(1, 5), tokens(1, 6, seed=1)
    embedded = model.target_embeddings(target).requires_grad_()
    model.target_embeddings.forward = lambda tokens, start=0: embedded  # type: ignore[method-assign]
    logits = model(source, target)
    for t in range(6):
        (gradient,) = torch.autograd.grad(logits[0, t].sin().sum(), embedded, retain_graph=True)
        reached = (gradient[0] != 0).any(-1)
        assert reached.tolist() == [position <= t for position in range(6)]


def test_every_source_position_reaches_every_target_position() -> None:
    model = model_of(TINY)
    source, target = tokens(1, 5), tokens(1, 3, seed=1)
    before = model(source, target)
    for position in range(5):
        changed = source.clone()
        changed[0, position] = 4 + (source[0, position] - 3) % (VOCABULARY - 4)
        assert ((model(changed, target) - before).abs().amax(-1) > 1e-9).all()


def test_forward_is_the_projection_of_the_features() -> None:
    model = model_of(VARIANTS["marian"])
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    torch.testing.assert_close(
        model.projection(model.features(source, target)), model(source, target)
    )


def test_backends_are_equal_in_the_whole_model() -> None:
    results = []
    source, target = padded([tokens(7), tokens(3, seed=1)]), tokens(2, 5, seed=2)
    for backend in (explicit, sdpa):
        torch.manual_seed(0)
        model = Transformer(TINY, VOCABULARY, VOCABULARY)
        for module in model.modules():
            if isinstance(module, Attention):
                module.backend = backend
        logits = model(source, target)
        logits.sin().sum().backward()
        results.append([logits.detach(), *(p.grad for p in model.parameters())])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_dropout_is_where_section_5_4_puts_it() -> None:
    """Two sums with positions, 2 sublayers of 2 encoder layers, 3 of 3 decoder layers."""
    model = Transformer(TINY.model_copy(update={"dropout": 0.4}), VOCABULARY, VOCABULARY)
    shares = [module.p for module in model.modules() if type(module).__name__ == "Dropout"]
    assert shares.count(0.4) == 2 + 2 * 2 + 3 * 3
    assert shares.count(0.0) == 2 + 3  # inside feed-forward networks: off
    source, target = tokens(1, 4), tokens(1, 3)
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))


def test_attention_and_activation_dropout_are_options() -> None:
    for name in ("attention_dropout", "activation_dropout"):
        model = Transformer(TINY.model_copy(update={name: 0.4}), VOCABULARY, VOCABULARY)
        source, target = tokens(1, 4), tokens(1, 3)
        assert not torch.equal(model(source, target), model(source, target))


# Depth


@pytest.mark.slow
def test_training_at_the_depth_of_base_does_not_diverge() -> None:
    """6 + 6 post-norm layers on a copy task, with Adam and Eq. 3, past the peak of its rate.

    A stack that diverges goes back to the entropy of the pieces, ln 12 = 2.48, or above it; one
    whose decoder does not find the source stays near 1.7.
    """
    torch.manual_seed(1)
    d_model, warmup, updates = 32, 400, 500
    config = TransformerConfig(d_model=d_model, d_ff=64, heads=4, dropout=0.0)
    model = Transformer(config, 16, 16)
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for update in range(1, updates + 1):
        target = torch.randint(4, 16, (16, 6))
        rate = d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)
        for group in optimiser.param_groups:
            group["lr"] = rate
        logits = model(target, shifted(config, target))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert max(losses[100:]) < 2.48
    assert sum(losses[-50:]) / 50 < 1.0
