"""Transformers with every score and every kind of positions: what they learn and what they know."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.attend import Attention
from crosshead.config import validate
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.errors import ConfigError
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import BOS, EOS, PAD
from tests.learning import SEEDS, learns
from tests.models.decodable import JoiningTests
from tests.models.small_transformers import TINY, VOCABULARY, model_of, padded, shifted, tokens
from tests.parameters import mostly_slow

ALONE = [{"score": score} for score in SCORES] + [
    {"positions": positions} for positions in POSITIONS if positions not in ("none", "sinusoidal")
]

EXCLUDED = {
    ("additive", "rotary"), ("concat", "rotary"), ("general", "rotary"), ("additive", "shaw"),
    ("concat", "shaw"), ("general", "shaw"), ("cosine", "shaw"),
}  # fmt: skip
"""Pairs that a configuration refuses: these positions act on plain products."""
PRODUCT = [
    {"score": score, "positions": positions}
    for score, positions in itertools.product(SCORES, POSITIONS)
    if (score, positions) not in EXCLUDED and positions != "none"
]


def named(changes: dict[str, str]) -> str:
    return ", ".join(changes.values())


# Identities


def variant(changes: dict[str, str]) -> Transformer:
    """A model for decoding, in which no parameter is zero, as those of T5 are at the start."""
    model = model_of(TINY.model_copy(update=changes))
    for name, parameter in model.named_parameters():
        if ".bias.table" in name:
            torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("changes", ALONE, ids=named)
def test_steps_are_the_features_of_all_at_once(changes: dict[str, str]) -> None:
    """With several tokens at a time and single ones, and rows that go on in another order."""
    model = variant(changes)
    source = padded([tokens(6), tokens(2, seed=1)])
    target = shifted(model.config, tokens(2, 9, seed=2))
    expected = model(source, target)
    state, end = model.start(source), 0
    for length in (1, 4, 1):
        features, state = model.step(state, target[:, end : end + length])
        end += length
        torch.testing.assert_close(model.logits(features), expected[:, end - 1])
    state, order = state.select(torch.tensor([1, 0, 1])), torch.tensor([1, 0, 1])
    features, _ = model.step(state, target[order, end:])
    torch.testing.assert_close(model.logits(features), expected[order, -1])


class TestJoining(JoiningTests):
    @pytest.fixture(
        params=mostly_slow(ALONE, [each for each in ALONE if "positions" in each]), ids=named
    )
    def model(self, request: pytest.FixtureRequest) -> Transformer:
        return variant(request.param)


@pytest.mark.parametrize("changes", ALONE, ids=named)
def test_padding_changes_nothing(changes: dict[str, str]) -> None:
    model = variant(changes)
    source, target = tokens(1, 4), tokens(1, 5, seed=1)
    longer = F.pad(source, (0, 3), value=PAD)
    torch.testing.assert_close(model(longer, target), model(source, target))


@pytest.mark.parametrize("changes", ALONE, ids=named)
def test_every_parameter_learns(changes: dict[str, str]) -> None:
    """And the weights of attention are seen, however they are scored."""
    model = variant(changes).requires_grad_()
    seen: list[Tensor] = []
    attending = [module for module in model.modules() if isinstance(module, Attention)]
    for module in attending:
        module.observe = seen.append
    model(tokens(2, 7), tokens(2, 6, seed=1)).sin().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name
    assert len(seen) == len(attending) == 2 + 2 * 3
    for weights in seen:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


# Sets, and what positions make of them


@pytest.mark.parametrize("changes", [*ALONE, {"positions": "none"}], ids=named)
def test_an_encoder_is_equivariant_exactly_without_positions(changes: dict[str, str]) -> None:
    """Tokens in another order mean the same in that order, unless something knows positions."""
    model = variant({"positions": "none"} | changes)
    source = torch.arange(4, 10)[None]
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    memory, shuffled = model.encode(source)[0], model.encode(source[:, order])[0]
    same = torch.allclose(shuffled, memory[:, order], atol=1e-9)
    assert same == (changes.get("positions", "none") == "none")


@pytest.mark.parametrize("positions", ["rotary", "shaw", "t5", "alibi"])
def test_positions_are_in_self_attention_alone_and_each_layer_has_its_own(positions: str) -> None:
    model = model_of(TINY.model_copy(update={"positions": positions}))
    own = [layer.self_attention for layer in model.decoder.layers]
    plain = Transformer(TINY, VOCABULARY, VOCABULARY).decoder.layers[0].cross_attention
    for layer in model.decoder.layers:
        assert type(layer.cross_attention.score) is type(plain.score)
        assert layer.cross_attention.combine is plain.combine
        assert layer.cross_attention.rotate is None
    kept = [id(parameter) for attention in own for parameter in attention.parameters()]
    assert len(set(kept)) == len(kept)
    assert model.source_embeddings.positions is None


def test_t5_tells_later_keys_apart_where_they_are_seen() -> None:
    model = model_of(TINY.model_copy(update={"positions": "t5"}))
    assert not model.encoder.layers[0].attention.score.bias.causal
    assert model.decoder.layers[0].self_attention.score.bias.causal


# Configuration


@pytest.mark.parametrize(("score", "positions"), sorted(EXCLUDED))
def test_positions_that_a_score_does_not_know_are_refused(score: str, positions: str) -> None:
    message = f"positions {positions} do not work with score {score}: .*scaled-dot, dot"
    with pytest.raises(ConfigError, match=message):
        validate(TransformerConfig, {"score": score, "positions": positions})


def test_rotary_positions_need_an_even_width() -> None:
    with pytest.raises(ConfigError, match="the width 5 of queries and keys is odd"):
        validate(TransformerConfig, {"positions": "rotary", "d_key": 5})


def test_all_other_pairs_are_built() -> None:
    for changes in PRODUCT:
        config = validate(TransformerConfig, TINY.model_dump() | changes)
        assert model_of(config)(tokens(1, 3), tokens(1, 2)).isfinite().all()


# Learning

SMALL = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=32, d_ff=64, heads=8, dropout=0.0, tie="none"
)
SYMBOLS, LONGEST, ROWS, MOST_UPDATES = range(4, 9), 3, 64, 4000


def every_text() -> list[Tensor]:
    """All sequences of one to three of five symbols."""
    lengths = range(1, LONGEST + 1)
    return [torch.tensor(text) for n in lengths for text in itertools.product(SYMBOLS, repeat=n)]


def examples(texts: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, what the decoder is given, and what it should say: each text the other way round."""
    end, begin = torch.tensor([EOS]), torch.tensor([BOS])
    return (
        padded([torch.cat((text, end)) for text in texts]),
        padded([torch.cat((begin, text.flip(0))) for text in texts]),
        padded([torch.cat((text.flip(0), end)) for text in texts]),
    )


def learns_to_reverse(changes: dict[str, str], seed: int = 1) -> bool:
    """Whether training comes to where greedy search turns every text round."""
    torch.manual_seed(seed)
    model = Transformer(SMALL.model_copy(update=changes), SYMBOLS.stop, SYMBOLS.stop)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    source, given, wanted = examples(every_text())
    lengths = (source != PAD).sum(dim=1)
    rate = lengths.bincount()[lengths].rsqrt()  # short ones more often: there are few

    def update(number: int) -> float:
        step = number / 50
        optimizer.param_groups[0]["lr"] = 0.006 * min(step, step**-0.5)
        rows = torch.multinomial(rate, ROWS, replacement=True)
        logits = model(source[rows], given[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted[rows].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return learns(update, lambda: reverses(model, source, wanted), most=MOST_UPDATES, every=10)


@torch.inference_mode()
def reverses(model: Transformer, source: Tensor, wanted: Tensor) -> bool:
    """Whether greedy search says what is wanted of every source."""
    limits = torch.full((len(source),), LONGEST + 1)
    found = greedy_search(model, source, limits, Specials(BOS, EOS, (PAD, BOS)), 0.0)
    outputs = padded([torch.tensor([*best[0].tokens, EOS]) for best in found])
    return torch.equal(outputs, wanted)


LEARNED = mostly_slow(ALONE, [{"score": "scaled-dot"}])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("changes", LEARNED, ids=named)
def test_it_learns_to_reverse(changes: dict[str, str], seed: int) -> None:
    assert learns_to_reverse(changes, seed)


@pytest.mark.slow
@pytest.mark.parametrize("changes", PRODUCT, ids=named)
def test_every_score_learns_with_all_positions_it_goes_with(changes: dict[str, str]) -> None:
    assert learns_to_reverse(changes)
