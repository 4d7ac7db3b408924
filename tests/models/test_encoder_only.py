"""The encoder-only Transformer: what it computes, whom its positions see, and what it learns."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention import masks
from crosshead.errors import UserError
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.vocabulary import MASK, PAD
from tests.attention.torch_weights import copy_encoder, randomise
from tests.learning import SEEDS, learns
from tests.models.small_transformers import VOCABULARY, padded, tokens
from tests.parameters import mostly_slow

SHAPE = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4, "dropout": 0.0}
VARIANTS = {
    **{name: EncoderConfig(**SHAPE, positions=name) for name in POSITIONS},
    "post-norm, window": EncoderConfig(**SHAPE, norm="post", pattern="window", radius=2),
    "strided": EncoderConfig(**SHAPE, pattern="strided", stride=3),
    "tied, multi-query": EncoderConfig(**SHAPE, tie=True, output_bias=True, kv_heads=1),
}


def model_of(config: EncoderConfig) -> TransformerEncoder:
    """A model in float64, its constants randomised so that each of them matters."""
    torch.manual_seed(0)
    model = TransformerEncoder(config, VOCABULARY).double().eval().requires_grad_(False)
    randomise(model)
    return model


# What it computes


@pytest.mark.parametrize("tie", [True, False])
def test_its_parameters_are_counted(tie: bool) -> None:
    """Attention W^Q, W^K, W^V, W^O and a feed-forward network a layer, each with biases; norms."""
    with torch.device("meta"):
        model = TransformerEncoder(EncoderConfig(**SHAPE, tie=tie), VOCABULARY)
    layer = 4 * (16 * 16 + 16) + (16 * 24 + 24) + (24 * 16 + 16) + 2 * (16 + 16)
    expected = (1 if tie else 2) * VOCABULARY * 16 + 2 * layer + (16 + 16)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_it_is_the_encoder_of_torch() -> None:
    """Pre-norm and GELU, with our embeddings and output projection, which theirs lacks."""
    ours = model_of(EncoderConfig(**SHAPE, positions="none"))
    layer = nn.TransformerEncoderLayer(
        16, 4, 24, 0.0, activation="gelu", batch_first=True, norm_first=True
    )
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    copy_encoder(theirs, ours.stack)
    text = padded([tokens(9), tokens(4, seed=1), tokens(1, seed=2)])
    there = text != PAD
    expected = ours.projection(theirs(ours.embeddings(text), src_key_padding_mask=~there))
    torch.testing.assert_close(ours(text)[there], expected[there], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_behind_a_text_changes_nothing(name: str) -> None:
    model = model_of(VARIANTS[name])
    rows = [tokens(length, seed=length) for length in (11, 3, 1)]
    for row, found in zip(rows, model(padded(rows)), strict=True):
        torch.testing.assert_close(found[: len(row)], model(row[None])[0])


def test_learned_positions_end_with_an_error_that_names_both_lengths() -> None:
    model = model_of(EncoderConfig(**SHAPE, positions="learned", max_length=9))
    assert model(tokens(1, 9)).shape == (1, 9, VOCABULARY)
    with pytest.raises(UserError, match=r"10 tokens .* 9 learned positions"):
        model(tokens(1, 10))


# Whom its positions see


def reached(model: TransformerEncoder, length: int) -> Tensor:
    """Whether what is said at a place (first axis) depends on what stands at another."""
    vectors = model.embeddings(tokens(1, length))
    model.embeddings.forward = lambda tokens, start=0: vectors  # type: ignore[method-assign]
    vectors.requires_grad_()
    said = model(tokens(1, length)).sin().sum(-1)[0]
    rows = [torch.autograd.grad(each, vectors, retain_graph=True)[0][0] for each in said]
    return torch.stack(rows).abs().sum(-1) > 1e-12


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_position_sees_both_sides(positions: str) -> None:
    assert reached(model_of(VARIANTS[positions]), 7).all()


@pytest.mark.parametrize("in_blocks", [True, False])
def test_with_a_window_a_position_sees_its_neighbours_alone(
    in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "MIN_SAVING", 0 if in_blocks else 1000)
    config = EncoderConfig(**SHAPE | {"layers": 1}, pattern="window", radius=2)
    places = torch.arange(20)
    near = (places[:, None] - places).abs() <= 2
    assert torch.equal(reached(model_of(config), 20), near)


# Learning

SYMBOLS, LENGTH, MOST_UPDATES = 6, 8, 3000


def hidden_between(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Texts, where in each a token is hidden, and what it is: the larger one of its neighbours."""
    text = torch.randint(4, 4 + SYMBOLS, (rows, LENGTH))
    places = torch.randint(1, LENGTH - 1, (rows, 1))
    sides = torch.cat((text.gather(1, places - 1), text.gather(1, places + 1)), dim=1)
    return text.scatter(1, places, MASK), places, sides.amax(dim=1)


def share_found(changes: dict[str, object], most: int, seed: int = 1) -> float:
    """Return how often what is hidden is found in the last ten batches of a training; all are new.

    Training ends after `most` updates, or sooner if everything was found in ten batches in a row.
    """
    torch.manual_seed(seed)
    shape = {"layers": 1, "d_model": 32, "d_ff": 64, "heads": 4, "dropout": 0.0} | changes
    model = TransformerEncoder(EncoderConfig(**shape), 4 + SYMBOLS)
    optimizer = torch.optim.AdamW(model.parameters())
    shares: list[float] = []

    def update(number: int) -> float:
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, number / 20) / (1 + number / 500)
        text, places, right = hidden_between(128)
        found = model(text)[torch.arange(128), places[:, 0]]
        loss = F.cross_entropy(found, right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shares.append((found.argmax(-1) == right).float().mean().item())
        return loss.item()

    learns(update, lambda: shares[-10:] == [1.0] * 10, most, every=1)
    return sum(shares[-10:]) / 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "changes",
    mostly_slow(
        [
            {"positions": "rotary", "heads": 2},
            {"positions": "sinusoidal"},
            {"positions": "shaw"},
            {"positions": "sinusoidal", "score": "general"},
        ],
        [{"positions": "rotary", "heads": 2}],
    ),
)
def test_it_learns_to_find_what_both_sides_tell(changes: dict[str, object], seed: int) -> None:
    assert share_found(changes, MOST_UPDATES, seed) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        *({"positions": name} for name in POSITIONS if name not in ("none", "rotary", "alibi")),
        # With a single layer of four heads these two come to nine in ten.
        {"positions": "rotary", "layers": 2},
        {"positions": "alibi", "layers": 2},
        *({"positions": "sinusoidal", "score": score} for score in SCORES),
    ],
)
def test_every_position_and_score_learns_it(changes: dict[str, object]) -> None:
    """Each by itself: all pairs of them learn in `test_variants`, by the same attention."""
    assert share_found(changes, MOST_UPDATES) == 1


@pytest.mark.slow
def test_without_positions_it_cannot_tell_which_are_its_neighbours() -> None:
    assert share_found({"positions": "none"}, most=100) < 0.7
