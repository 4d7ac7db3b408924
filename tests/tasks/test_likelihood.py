import math

import numpy as np
import pytest

from crosshead.errors import DataError
from crosshead.tasks.language.text_generator import ScoredText
from crosshead.tasks.likelihood import (
    bits_per_character,
    masked_scores,
    perplexity,
    text_scores,
)
from crosshead.tasks.masked.mask_filler import ScoredMasks
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from tests.evaluation.resampling import bootstrap, random_windows

BYTES = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])


def test_perplexity_is_the_inverse_of_the_mean_probability() -> None:
    half, eighth = math.log(1 / 2), math.log(1 / 8)
    scored = [
        ScoredTranslation(half, ["</s>"], [half]),
        ScoredTranslation(half + 2 * eighth, ["a", "b", "</s>"], [eighth, half, eighth]),
    ]
    found = perplexity(scored, BYTES)
    assert found.value == pytest.approx(4.0)
    # A resample has one sentence twice, or both.
    assert (found.low, found.high) == pytest.approx((2.0, 2 ** (7 / 3)))
    assert found == perplexity(scored, BYTES)
    assert found.signature.startswith("nrefs:1|bs:1000|seed:12345|per:piece|eos:yes|tok:bytes|")
    assert f"|vocab:{BYTES.vocab_size}|version:crosshead-" in found.signature
    hopeless = perplexity([ScoredTranslation(-1e6, ["</s>"], [-1e6])], BYTES)
    assert (hopeless.value, hopeless.low, hopeless.high) == (math.inf, math.inf, math.inf)


def test_the_interval_of_perplexity_is_as_wide_as_the_sentences_differ() -> None:
    random = np.random.default_rng(1)
    values = -random.normal(2.0, 0.5, size=400)
    scored = [ScoredTranslation(value, ["</s>"], [value]) for value in values.tolist()]
    found = perplexity(scored, BYTES)
    error = 1.96 * values.std() / math.sqrt(len(values))
    for end, expected in ((found.low, -error), (found.high, error)):
        assert math.log(end) - math.log(found.value) == pytest.approx(expected, rel=0.15)


def test_the_interval_of_perplexity_follows_from_the_seed_in_its_signature() -> None:
    windows = random_windows(50)
    scored = [ScoredTranslation(-n, ["a"] * size, [-n / size] * size) for n, size, _ in windows]
    found = perplexity(scored, BYTES)
    assert "|bs:1000|seed:12345|" in found.signature
    nats, sizes, _ = map(np.array, zip(*windows, strict=True))
    expected = bootstrap([nats, sizes], lambda nats, pieces: math.exp(nats / pieces))
    assert [found.low, found.high] == pytest.approx(expected)


def test_the_intervals_of_windows_follow_from_the_seed_in_their_signature() -> None:
    windows = random_windows(50)
    columns = [np.array(column) for column in zip(*windows, strict=True)]
    rates = {
        "perplexity": lambda nats, tokens, _: math.exp(nats / tokens),
        "bits per character": lambda nats, _, characters: nats / math.log(2) / characters,
        "masked perplexity": lambda nats, tokens, _: math.exp(nats / tokens),
        "masked accuracy, %": lambda _, tokens, hits: 100 * hits / tokens,
    }
    scores = [
        *text_scores(ScoredText(windows, 0, "context:8", BYTES)),
        *masked_scores(ScoredMasks(windows, "hidden:0.15", BYTES)),
    ]
    assert [score.metric for score in scores] == list(rates)
    for score in scores:
        assert "|bs:1000|seed:12345|" in score.signature
        assert [score.low, score.high] == pytest.approx(bootstrap(columns, rates[score.metric]))


def test_a_text_of_coins_has_a_bit_for_each() -> None:
    """Windows of another length weigh as much as they are long."""
    coins = [(length * math.log(2), length, length) for length in (8, 8, 3)]
    rate, bits = text_scores(ScoredText(coins, 0, "context:8|stride:8", BYTES))
    assert (rate.metric, bits.metric) == ("perplexity", "bits per character")
    assert (rate.value, rate.low, rate.high) == pytest.approx((2, 2, 2))
    assert (bits.value, bits.low, bits.high) == pytest.approx((1, 1, 1))


def test_the_scores_of_a_text_are_of_its_sums() -> None:
    """Perplexity to the power of the tokens is two to the power of the bits."""
    windows = [(7.5, 4, 9), (2.25, 3, 3), (6.0, 4, 11)]
    rate, bits = text_scores(ScoredText(windows, 2, "memory:8", BYTES))
    nats, tokens, characters = (sum(column) for column in zip(*windows, strict=True))
    assert rate.value == pytest.approx(math.exp(nats / tokens))
    assert bits.value == pytest.approx(nats / math.log(2) / characters)
    assert bits.value == pytest.approx(bits_per_character(nats, characters))
    assert rate.value**tokens == pytest.approx(2 ** (bits.value * characters))
    for score, unit in ((rate, "token"), (bits, "character")):
        assert score.low < score.value < score.high
        assert score.signature.startswith(
            f"per:{unit}|bs:1000|seed:12345|memory:8|unknown:2|tok:bytes|vocab:260|version:"
        )
    [alone, _] = text_scores(ScoredText(windows[:1], 0, "memory:8", BYTES))
    assert alone.low == alone.value == alone.high


def test_bits_per_character_are_exact_for_a_single_character() -> None:
    assert bits_per_character(3 * math.log(2), 1) == pytest.approx(3)


def test_what_holds_nothing_to_score_is_refused() -> None:
    with pytest.raises(DataError, match="the test set is empty"):
        perplexity([], BYTES)
    with pytest.raises(DataError, match="it needs at least two tokens"):
        text_scores(ScoredText([], 0, "memory:8", BYTES))
    with pytest.raises(DataError, match="it needs at least two tokens"):
        masked_scores(ScoredMasks([], "hidden:0.15", BYTES))
