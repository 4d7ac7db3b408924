"""Patterns of self-attention in models: what they see, that they learn it, and what is refused."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention import masks
from crosshead.attention.block_sparse import BlockSparseMask
from crosshead.attention.masks import allowed, causal
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.inspection import record_attention
from crosshead.models.attention_kinds import SCORES
from crosshead.models.language import LanguageConfig
from crosshead.models.patterns import cache_window, causal_mask, self_mask
from crosshead.models.transformer import Transformer, TransformerConfig
from tests.attention.cache_memory import held_bytes
from tests.learning import SEEDS, learns
from tests.models.decodable import JoiningTests
from tests.models.small_language_models import model_of as language_model_of
from tests.models.small_language_models import nothing
from tests.models.small_transformers import TINY, model_of, padded, shifted, tokens
from tests.parameters import mostly_slow

LENGTH, MOST_UPDATES = 16, 3000
PATTERNS = {
    "window": {"radius": 2},
    "dilated": {"radius": 2, "dilation": 3},
    "strided": {"stride": 3},
    "fixed": {"stride": 4, "columns": 1},
}


def with_pattern(name: str, config: TransformerConfig = TINY) -> TransformerConfig:
    return config.model_copy(update={"pattern": name, **PATTERNS[name]})


def language_config(pattern: str) -> LanguageConfig:
    shape = {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.0}
    return LanguageConfig.model_validate({**shape, "pattern": pattern, **PATTERNS.get(pattern, {})})


class TestJoining(JoiningTests):
    @pytest.fixture(params=PATTERNS)
    def model(self, request: pytest.FixtureRequest) -> Transformer:
        return model_of(with_pattern(request.param))


@pytest.fixture
def always_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short a sequence is."""
    monkeypatch.setattr(masks, "MIN_SAVING", 0)


def furthest(name: str) -> list[int]:
    """The position that every position is to copy, one before it that only its pattern shows it.

    The neighbour at the end of the window or of its dilated form, the column beyond the window, the
    summary of the block before; negative where there is none.
    """
    if name == "fixed":
        return [i // 4 * 4 - 1 for i in range(LENGTH)]
    return [i - {"window": 2, "dilated": 6, "strided": 6}[name] for i in range(LENGTH)]


def learned(
    config: TransformerConfig, wanted: list[int], most: int, seed: int = 1
) -> tuple[float, float]:
    """Return how often encoder and decoder, each by itself, copy the wanted position to every one.

    These are shares of the last ten batches of a training; all batches are new. Training ends after
    `most` updates, or sooner if all was right in ten batches in a row.
    """
    torch.manual_seed(seed)
    model = Transformer(config, 9, 9)
    optimizer = torch.optim.AdamW(model.parameters())
    nothing = torch.full((32, 1), 2)
    places = [i for i, j in enumerate(wanted) if j >= 0]
    sources = [wanted[i] for i in places]
    shares: list[list[float]] = []

    def update(number: int) -> float:
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, number / 20) / (1 + number / 300)
        x = torch.randint(4, 9, (32, LENGTH))
        logits = [model.projection(model.encode(x)[0]), model(nothing, x)]
        found, right = [y[:, places] for y in logits], x[:, sources]
        loss = sum(F.cross_entropy(y.transpose(1, 2), right) for y in found)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shares.append([(y.argmax(-1) == right).float().mean().item() for y in found])
        return loss.item()

    learns(update, lambda: shares[-10:] == [[1.0, 1.0]] * 10, most, every=1)
    encoder, decoder = torch.tensor(shares[-10:]).mean(0).tolist()
    return encoder, decoder


LEARNER = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=32, d_ff=64, heads=4, dropout=0.0, norm="pre"
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", mostly_slow(PATTERNS, ["dilated"]))
@pytest.mark.usefixtures("always_in_blocks")
def test_a_pattern_learns_to_copy_what_only_it_sees(name: str, seed: int) -> None:
    # Distances are learned sooner than places, but do not tell the ends of blocks.
    positions = "sinusoidal" if name == "fixed" else "rotary"
    config = with_pattern(name, LEARNER).model_copy(update={"positions": positions})
    wanted = furthest(name)
    seen = self_mask(config, causal).dense(LENGTH, LENGTH)[0, 0]
    assert all(seen[i, j] for i, j in enumerate(wanted) if j >= 0)
    assert learned(config, wanted, MOST_UPDATES, seed) == (1.0, 1.0)


ABSOLUTE = ("sinusoidal", "sinusoidal-halves", "sinusoidal-marian", "learned")
RELATIVE = ("rotary", "shaw", "t5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "norm", "positions"),
    [
        *itertools.product(PATTERNS, ("pre", "post"), ABSOLUTE),
        *itertools.product(("window", "dilated", "strided"), ("pre",), RELATIVE),
    ],
)
@pytest.mark.usefixtures("always_in_blocks")
def test_patterns_learn_with_every_norm_and_position(name: str, norm: str, positions: str) -> None:
    """But for what cannot: ALiBi takes both neighbours for one; distances do not tell blocks.

    Scores are not multiplied in: a pattern takes pairs away after they are scored, whichever way,
    and every score gives the numbers in blocks that it gives with dense masks (below).
    """
    config = with_pattern(name, LEARNER).model_copy(update={"norm": norm, "positions": positions})
    assert learned(config, furthest(name), MOST_UPDATES) == (1.0, 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("always_in_blocks")
def test_what_is_out_of_reach_is_not_learned() -> None:
    wanted = [i - 3 for i in range(LENGTH)]
    encoder, decoder = learned(with_pattern("window", LEARNER), wanted, most=60)
    assert encoder < 0.4 and decoder < 0.4  # one of five symbols


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.usefixtures("always_in_blocks")
def test_gradients_reach_what_the_pattern_allows_and_no_more(name: str) -> None:
    """Of one layer, computed in blocks."""
    config = with_pattern(name).model_copy(update={"encoder_layers": 1, "decoder_layers": 1})
    model = model_of(config)
    vectors = torch.randn(40, 16, dtype=torch.float64)

    def through_encoder(x: Tensor) -> Tensor:
        mask = self_mask(config, masks.Mask(lambda b, h, q, k: k >= 0)).evaluate(40, 40)
        (layer,) = model.encoder.layers
        return model.encoder.norm(layer(x[None], mask))[0].sum(-1)

    reached = torch.autograd.functional.jacobian(through_encoder, vectors).abs().sum(-1) > 1e-12
    expected = self_mask(config, masks.Mask(lambda b, h, q, k: k >= 0)).dense(40, 40)[0, 0]
    assert torch.equal(reached, expected)


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        *((name, "sinusoidal") for name in PATTERNS),
        *(("strided", positions) for positions in ("rotary", "shaw", "t5", "alibi")),
    ],
)
@pytest.mark.usefixtures("always_in_blocks")
def test_a_model_in_blocks_is_the_model_with_dense_masks(
    name: str, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences of different lengths, padded, and longer than the pattern reaches."""
    check_blocks(with_pattern(name).model_copy(update={"positions": positions}), monkeypatch)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", mostly_slow(PATTERNS, ["strided"]))
@pytest.mark.usefixtures("always_in_blocks")
def test_every_score_is_the_same_in_blocks(
    name: str, score: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_blocks(with_pattern(name).model_copy(update={"score": score}), monkeypatch)


def check_blocks(config: TransformerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features are the same in blocks and with dense masks, together and alone."""
    model = model_of(config)
    source = padded([tokens(150), tokens(97, seed=1)])
    target = shifted(model.config, padded([tokens(131), tokens(140, seed=1)]))
    found = model.features(source, target)
    monkeypatch.setattr(masks, "MIN_SAVING", 1000)  # never in blocks
    expected = model.features(source, target)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    [alone] = model.features(source[1:, :97], target[1:])
    torch.testing.assert_close(found[1], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.usefixtures("always_in_blocks")
def test_decoding_with_a_cache_sees_what_training_sees(name: str) -> None:
    model = model_of(with_pattern(name))
    source = padded([tokens(11), tokens(7, seed=1)])
    target = shifted(model.config, tokens(2, 60))
    expected = model.features(source, target)
    state = model.start(source)
    first, state = model.step(state, target[:, :40])
    torch.testing.assert_close(first, expected[:, 39], rtol=1e-10, atol=1e-10)
    second, state = model.step(state, target[:, 40:43])
    torch.testing.assert_close(second, expected[:, 42], rtol=1e-10, atol=1e-10)
    for t in range(43, 60):
        found, state = model.step(state, target[:, t : t + 1])
        torch.testing.assert_close(found, expected[:, t], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", mostly_slow(["window", "dilated"], ["dilated"]))
@pytest.mark.parametrize(
    "positions", ["sinusoidal", "learned", "rotary", "shaw", "t5", "alibi", "none"]
)
def test_a_cache_keeps_what_can_still_be_seen_and_no_more(name: str, positions: str) -> None:
    """Far past its reach, in pieces and with rows that go on in another order."""
    shape = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4, "dropout": 0.0}
    config = LanguageConfig(**shape, positions=positions, pattern=name, **PATTERNS[name])
    model = language_model_of(config)
    reach = {"window": 2, "dilated": 6}[name]
    text, order = tokens(2, 200), torch.tensor([1, 0])
    expected = model(text)
    state, end = model.start(nothing(2)), 0
    for length in (1, 1, 5, 1, 40, 2, *[1] * 40, 3, *[1] * 107):
        features, state = model.step(state, text[:, end : end + length])
        end += length
        found = model.logits(features)
        torch.testing.assert_close(found, expected[:, end - 1], rtol=1e-10, atol=1e-10)
        if length == 3:
            state, text, expected = state.select(order), text[order], expected[order]
    assert end == 200
    position = 2 * (16 + 16) * expected.element_size()  # keys and values of two sentences
    for cache in state.caches:
        assert cache.length == 200
        assert cache.visible == reach
        assert 0 < held_bytes(cache) <= 16 * position


def test_the_cache_of_a_translation_is_bounded_by_the_window() -> None:
    model = model_of(with_pattern("window"))
    source, target = tokens(2, 7), shifted(model.config, tokens(2, 80))
    expected, state = model.features(source, target), model.start(source)
    for t in range(80):
        found, state = model.step(state, target[:, t : t + 1])
        torch.testing.assert_close(found, expected[:, t], rtol=1e-10, atol=1e-10)
    position = 2 * (16 + 16) * expected.element_size()  # keys and values of two sentences
    assert all(0 < held_bytes(cache) <= 16 * position for cache in state.caches)


@pytest.mark.usefixtures("always_in_blocks")
def test_weights_in_blocks_can_be_recorded() -> None:
    model = model_of(with_pattern("strided"))
    source, target = tokens(1, 50), shifted(model.config, tokens(1, 50))
    with record_attention(model) as recorded:
        model.features(source, target)
    seen = self_mask(model.config, causal).dense(50, 50)
    for n in range(3):
        [weights] = recorded[f"decoder.layers.{n}.self_attention"]
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 50, dtype=torch.float64))
        assert torch.equal(weights > 0, seen.expand_as(weights))


# Configuration


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pattern": "window"}, "pattern 'window' needs radius: give a number"),
        ({"pattern": "dilated", "radius": 2}, "pattern 'dilated' needs dilation"),
        ({"pattern": "fixed", "stride": 2}, "pattern 'fixed' needs columns"),
        (
            {"radius": 2},
            "radius 2 has no meaning for pattern 'full'; leave it out, or choose pattern 'window' "
            "or 'dilated'",
        ),
        (
            {"pattern": "window", "radius": 2, "columns": 1},
            "columns 1 has no meaning for pattern 'window'; leave it out, or choose pattern "
            "'fixed'",
        ),
        (
            {"pattern": "fixed", "stride": 3, "columns": 4},
            "columns 4 are more than a block has; give 3 (stride) or fewer",
        ),
        (
            {"pattern": "fixed", "stride": 3, "columns": 1, "positions": "alibi"},
            "positions alibi do not work with pattern 'fixed', whose summary columns have no "
            "regular distances; choose positions rotary, or positions that are added to embeddings",
        ),
        ({"pattern": "window", "radius": 0}, "radius: expected 1 or more, found 0"),
    ],
)
def test_impossible_patterns_are_one_line(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate(TransformerConfig, values)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_stored_with_the_model(name: str) -> None:
    config = with_pattern(name)
    assert TransformerConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("pattern", ["full", *PATTERNS])
def test_steps_are_masked_as_all_at_once(pattern: str) -> None:
    """The rows of new positions are the last rows of the mask of all of them."""
    config, cpu = language_config(pattern), torch.device("cpu")
    whole = self_mask(config, causal).dense(12, 12)[0, 0]
    for new, before in ((1, 11), (3, 9), (12, 0)):
        mask = causal_mask(config, new, before, cpu)
        rows = torch.ones(new, before + new).bool() if mask is None else mask
        assert isinstance(rows, torch.Tensor)
        assert torch.equal(rows.expand(1, 1, new, 12)[0, 0], whole[12 - new :])


@pytest.mark.parametrize("pattern", ["full", *PATTERNS])
def test_no_position_sees_further_back_than_it_reaches(pattern: str) -> None:
    config = language_config(pattern)
    query, key = self_mask(config, causal).dense(40, 40)[0, 0].nonzero().T
    furthest, reach = int((query - key).max()), cache_window(config)
    assert furthest == reach if reach is not None else furthest >= 36


@pytest.mark.parametrize("length", [300, 1000])
@pytest.mark.parametrize("pattern", ["full", *PATTERNS])
@pytest.mark.parametrize("after", [True, False])
def test_a_pattern_scores_less_than_half_of_the_keys(
    pattern: str, length: int, after: bool
) -> None:
    config = language_config(pattern)
    among = allowed(torch.ones(length, length).bool()) if after else causal
    mask = self_mask(config, among).evaluate(length, length)
    if pattern == "full":
        assert not isinstance(mask, BlockSparseMask)
        return
    assert isinstance(mask, BlockSparseMask)
    assert sum(part.additive.shape[-1] for part in mask.parts) < length // 2
