import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from crosshead.data.labelled_images import LabelledImages
from crosshead.data.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.errors import ConfigError, DataError
from crosshead.evaluation import (
    bits_per_character,
    classification_scores,
    compare,
    corpus_scores,
    evaluate,
    exact_match,
    masked_scores,
    perplexity,
    text_scores,
)
from crosshead.pipelines.mask_filler import ScoredMasks
from crosshead.pipelines.scoring import ScoredTranslation
from crosshead.pipelines.text_generator import ScoredText
from crosshead.tasks.loading import load
from tests.pipelines.test_image_classifier import classifier

STORED = Path(__file__).parent / "fixtures" / "bundle-format-1"
BYTES = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
REFERENCES = [f"The dog number {n} runs over the green grass, quickly." for n in range(40)]
GOOD = [line.replace("quickly", "fast") if n % 4 else line for n, line in enumerate(REFERENCES)]
BAD = [line.replace("dog", "cat").replace("green", "wet") for line in REFERENCES]


def test_scores_are_those_of_sacrebleu() -> None:
    bleu, chrf, ter = corpus_scores(GOOD, REFERENCES, ["bleu", "chrf", "ter"])
    assert bleu.value == pytest.approx(sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score)
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(GOOD, [REFERENCES]).score)
    assert [score.metric for score in (bleu, chrf, ter)] == ["BLEU", "chrF2", "TER"]
    assert "tok:13a" in bleu.signature
    assert f"version:{sacrebleu.__version__}" in bleu.signature
    for score in (bleu, chrf, ter):
        assert score.low < score.value < score.high


def test_intervals_are_the_same_every_time() -> None:
    assert corpus_scores(GOOD, REFERENCES) == corpus_scores(GOOD, REFERENCES)


def test_a_perfect_translation_has_100() -> None:
    [score] = corpus_scores(REFERENCES, REFERENCES, ["bleu"])
    assert (score.value, score.low, score.high) == pytest.approx((100, 100, 100))


# In some resamples nothing matches, or there is nothing to match: these score plain floats there,
# and NumPy's elsewhere.
NO_MATCH_AT_TIMES = (["the cat sat on the mat", "zz"], ["the cat sat on the mat", "qq"])
NOTHING_AT_TIMES = (["", ""], ["a", ""])


@pytest.mark.parametrize(
    ("metric", "texts"), [("chrf", NO_MATCH_AT_TIMES), ("ter", NOTHING_AT_TIMES)]
)
def test_an_interval_is_found_where_resamples_score_nothing(
    metric: str, texts: tuple[list[str], list[str]]
) -> None:
    [score] = corpus_scores(*texts, [metric])
    plain = {"chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}[metric]
    assert score.value == pytest.approx(plain(texts[0], [texts[1]]).score)
    assert type(score.value) is float
    assert 0 <= score.low < score.value < score.high


def test_the_tokenisation_is_passed_on() -> None:
    [score] = corpus_scores(["你好世界和平"], ["你好世界"], ["bleu"], tokenize="zh")
    assert "tok:zh" in score.signature
    [joined] = corpus_scores(["你好世界和平"], ["你好世界"], ["bleu"], tokenize="none")
    assert score.value > joined.value


def test_a_better_system_is_told_from_a_worse_one() -> None:
    rows = compare({"bad": BAD, "good": GOOD, "same": BAD}, REFERENCES, ["bleu", "chrf"])
    assert [(row.metric, row.system) for row in rows] == [
        (metric, system) for metric in ("BLEU", "chrF2") for system in ("bad", "good", "same")
    ]
    baseline, good, same = rows[:3]
    assert baseline.p_value is None
    assert good.value > baseline.value
    assert good.p_value is not None
    assert good.p_value < 0.05
    assert same.p_value == 1.0
    assert good.low < good.value < good.high
    assert "seed:" in good.signature or "rs:" in good.signature


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


def bootstrap(columns: list[np.ndarray], value: Callable[..., float]) -> list[float]:
    """The 2.5th and 97.5th percentile of 1,000 resamples, as the signature describes them."""
    rng, rows = np.random.default_rng(12345), len(columns[0])
    draws = [rng.integers(rows, size=rows) for _ in range(1000)]
    values = [value(*(column[rows].sum() for column in columns)) for rows in draws]
    return np.percentile(values, [2.5, 97.5]).tolist()


def random_windows(rows: int) -> list[tuple[float, int, int]]:
    rng = np.random.default_rng(2)
    sizes = rng.integers(5, 20, size=(rows, 2))
    nats = rng.normal(2, 0.5, size=rows) * sizes[:, 0]
    return [(float(n), int(a), int(b)) for n, (a, b) in zip(nats, sizes, strict=True)]


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


def test_exact_matches_are_exact() -> None:
    assert exact_match(["a", "b ", "C", "d"], ["a", "b", "c", "d"]) == 0.5
    assert exact_match(["a", "b", "C", "d"], ["a", "b", "c", "d"]) == 0.75


def test_what_cannot_be_scored_is_one_line() -> None:
    with pytest.raises(DataError, match=r"found 1 translations .* and 2 references"):
        corpus_scores(["a"], ["a", "b"])
    with pytest.raises(DataError, match=r"found 1 translations \(two\) and 2 references"):
        compare({"one": ["a", "b"], "two": ["a"]}, ["a", "b"])
    with pytest.raises(DataError, match="the test set is empty"):
        exact_match([], [])
    with pytest.raises(DataError, match="the test set is empty"):
        perplexity([], BYTES)
    with pytest.raises(DataError, match="it needs at least two tokens"):
        text_scores(ScoredText([], 0, "memory:8", BYTES))
    with pytest.raises(DataError, match="it needs at least two tokens"):
        masked_scores(ScoredMasks([], "hidden:0.15", BYTES))
    with pytest.raises(ConfigError, match="at least two systems"):
        compare({"one": ["a"]}, ["a"])
    with pytest.raises(ConfigError, match="unknown metric 'blue'; did you mean 'bleu'"):
        corpus_scores(["a"], ["a"], ["blue"])
    with pytest.raises(ConfigError, match="unknown tokenisation '13b'; did you mean '13a'"):
        corpus_scores(["a"], ["a"], ["bleu"], tokenize="13b")


def test_a_text_is_no_list_of_sentences() -> None:
    translator = load(STORED, "cpu")
    with pytest.raises(DataError, match=r"^sources: .* found 't.en'; read the lines of a file"):
        evaluate(translator, "t.en", "t.de")
    with pytest.raises(DataError, match=r"^references: expected a list of sentences, found 't.de'"):
        evaluate(translator, ["a"], "t.de")
    with pytest.raises(DataError, match=r"^references: .* found PosixPath\('t.de'\)"):
        corpus_scores(["a"], Path("t.de"))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^two: expected a list of sentences, found 'a'"):
        compare({"one": ["a"], "two": "a"}, ["a"])


def test_what_is_no_translator_is_named() -> None:
    with pytest.raises(ConfigError, match=r"translator: expected a Translator, .* found str$"):
        evaluate("runs/dates", ["a"], ["a"])  # type: ignore[arg-type]


def test_a_tokenisation_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(ConfigError, match=r"'ja-mecab' cannot be used here: .*install"):
        corpus_scores(["a"], ["a"], ["bleu"], tokenize="ja-mecab")


def test_classes_are_scored_and_confusions_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    classify = classifier()
    labels, made = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2]), [0, 0, 1, 1, 1, 1, 2, 2, 2, 0]
    rows = iter(np.eye(3)[made] * 0.8 + 0.1)
    monkeypatch.setattr(classify, "probabilities", lambda pixels, check: rows)
    images = LabelledImages(np.zeros((10, 8, 8, 3), np.uint8), labels, [""] * 10)
    found = classification_scores(classify, images, "test")
    [accuracy] = found.scores  # three classes have no best five
    assert accuracy.value == 80.0
    assert (accuracy.low, accuracy.high) == pytest.approx((49.02, 94.33), abs=0.01)
    assert accuracy.signature.startswith("images:10|split:test|classes:3|pixels:8|interval:wilson")
    assert found.counts.tolist() == [[2, 1, 0], [0, 3, 0], [1, 0, 3]]
    assert found.confused() == [("high", "left", 1), ("low", "high", 1)]
    with pytest.raises(DataError, match="no images"):
        classification_scores(classify, LabelledImages(images.pixels[:0], labels[:0], []), "test")
