import itertools
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.subwords import BpeTokenizer
from crosshead.text.tokenizers import train_model
from tests.addons.vision.captions import captions

WORDS = ["lower", "newest", "widest", "low", "new", "er", "aab", "abab", "Größe", "\u00bd", "x\ty"]
LINES = [" ".join(words) for words in itertools.permutations(WORDS, 2)] * 3

REPETITIVE = BpeTokenizer(
    train_model("bpe", ["".join(word) for word in itertools.product(["x", "a"], repeat=6)], 275, [])
)


@pytest.fixture(scope="module")
def small() -> BpeTokenizer:
    return BpeTokenizer(train_model("bpe", LINES, 310, ["<x>", "<x>y"]), ["<x>", "<x>y"], 0.3)


def reference(tokenizer: BpeTokenizer, lines: list[str]) -> list[list[int]]:
    """SentencePiece's own segmentation (of text without the characters that we escape)."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    found: list[list[int]] = processor.encode(lines)
    return found


def without_drops(tokenizer: BpeTokenizer, lines: list[str]) -> list[list[int]]:
    """The segmentation by our own merges, of which hardly any is ever dropped."""
    return tokenizer.with_sampling(1e-12).encode_lines(lines, np.random.default_rng(1))


def test_captions_are_segmented_as_by_sentencepiece() -> None:
    (english, german), (unseen, _) = captions(2000), captions(500, seed=2)
    special = ["<2de>", "men", "ein"]
    tokenizer = BpeTokenizer(train_model("bpe", [*english, *german], 1000, special), special)
    lines = [*english, *german, *unseen, *map(str.upper, german)]
    assert without_drops(tokenizer, lines) == reference(tokenizer, lines)
    assert tokenizer.encode_lines(lines) == reference(tokenizer, lines)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_lines(lines)] == lines


@given(
    text=st.text(st.sampled_from("lowernwsidabGrößt ½ \t<x>y\U0001f600"))
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581\u2585\x1a"))
)
def test_any_text_is_segmented_as_by_sentencepiece(small: BpeTokenizer, text: str) -> None:
    assert small.encode(text) == reference(small, [text])[0]
    assert without_drops(small, [text]) == reference(small, [text])


@given(text=st.text("xa ", max_size=40))
def test_repeated_letters_are_segmented_as_by_sentencepiece(text: str) -> None:
    assert without_drops(REPETITIVE, [text]) == reference(REPETITIVE, [text])


def dropout_distribution(tokenizer: BpeTokenizer, word: str) -> dict[tuple[str, ...], float]:
    """The probability of each segmentation by Algorithm 1 of Provilkov 2020: a coin per merge."""
    order = {
        piece: index
        for index, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))
        if index > 261  # control, special and byte pieces stand before
    }
    drop = tokenizer.sampling
    found: Counter[tuple[str, ...]] = Counter()

    def follow(symbols: tuple[str, ...], share: float) -> None:
        merges = sorted(
            (order[left + right], place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in order
        )
        for dropped, (_, place) in enumerate(merges):
            merged = symbols[place] + symbols[place + 1]
            after = (*symbols[:place], merged, *symbols[place + 2 :])
            follow(after, share * drop**dropped * (1 - drop))
        found[symbols] += share * drop ** len(merges)

    follow(tuple("\u2581" + word), 1.0)
    return found


def test_the_strength_of_sampling_can_be_another(small: BpeTokenizer) -> None:
    stronger = small.with_sampling(0.9)
    assert (stronger.sampling, small.sampling) == (0.9, 0.3)
    assert stronger.encode_lines(LINES) == small.encode_lines(LINES)


@pytest.mark.parametrize("strength", [0.1, 0.5])
@pytest.mark.parametrize("words", ["lower", "abab newest"])
def test_sampling_has_the_distribution_of_bpe_dropout(
    small: BpeTokenizer, words: str, strength: float
) -> None:
    """Every segmentation is as frequent as its probability says, within what chance allows."""
    sampled, rng, draws = small.with_sampling(strength), np.random.default_rng(1), 6000
    word = words.split()[-1]
    expected = dropout_distribution(sampled, word)
    assert len(expected) > 8 and sum(expected.values()) == pytest.approx(1)
    lines = sampled.encode_lines([words] * draws, rng)
    found: Counter[tuple[str, ...]] = Counter()
    for ids in lines:
        pieces = sampled.pieces(ids)
        first = max(n for n, piece in enumerate(pieces) if piece.startswith("\u2581"))
        found[tuple(pieces[first:])] += 1
    assert found.keys() <= expected.keys()
    for segmentation, share in expected.items():
        deviation = np.sqrt(share * (1 - share) / draws)
        assert abs(found[segmentation] / draws - share) < 5 * deviation + 1 / draws, segmentation


@given(text=st.text(), seed=st.integers(0, 5))
def test_sampled_text_comes_back_and_depends_on_the_generator_alone(
    small: BpeTokenizer, text: str, seed: int
) -> None:
    ids = small.encode(text, np.random.default_rng(seed))
    assert small.decode(ids) == text
    fresh = BpeTokenizer(small.model, small.special, small.sampling)
    assert fresh.encode(text, np.random.default_rng(seed)) == ids


def test_words_of_a_line_are_drawn_independently(small: BpeTokenizer) -> None:
    lines = small.encode_lines(["newest newest"] * 50, np.random.default_rng(0))
    assert sum(ids[: len(ids) // 2] == ids[len(ids) // 2 :] for ids in lines) < 25


def test_special_pieces_survive_sampling_the_longest_first(small: BpeTokenizer) -> None:
    for ids in small.encode_lines(["low<x>yer<x>"] * 50, np.random.default_rng(0)):
        found = [piece for piece in small.pieces(ids) if "<" in piece]
        assert found == ["<x>y", "<x>"]


@pytest.mark.slow
def test_ids_count_the_merges(small: BpeTokenizer) -> None:
    assert small.is_in_order


def test_long_words_take_no_time_squared(small: BpeTokenizer) -> None:
    text = "ab" * 100_000
    assert small.decode(small.encode(text)) == text
    assert small.decode(small.encode(text, np.random.default_rng(0))) == text
