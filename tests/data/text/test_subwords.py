import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from crosshead.data.text.subword_training import train_model
from crosshead.data.text.subwords import BpeTokenizer
from crosshead.system.lines import read_lines

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


def test_real_text_is_segmented_as_by_sentencepiece(data: Path) -> None:
    lines = read_lines(data / "multi30k/raw/train.en")[:4000]
    lines += read_lines(data / "multi30k/raw/train.de")[:4000]
    special = ["<2de>", "man", "ein"]
    tokenizer = BpeTokenizer(train_model("bpe", lines, 3000, special), special)
    unseen = read_lines(data / "multi30k/raw/val.fr")
    assert tokenizer.encode_lines(lines + unseen) == reference(tokenizer, lines + unseen)
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_lines(unseen)] == unseen


@given(
    text=st.text(st.sampled_from("lowernwsidabGrößt ½ \t<x>y\U0001f600"))
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581\u2585\x1a"))
)
def test_any_text_is_segmented_as_by_sentencepiece(small: BpeTokenizer, text: str) -> None:
    assert small.encode(text) == reference(small, [text])[0]


@given(text=st.text("xa ", max_size=40))
def test_repeated_letters_are_segmented_as_by_sentencepiece(text: str) -> None:
    assert REPETITIVE.encode(text) == reference(REPETITIVE, [text])[0]


def naive_dropout(tokenizer: BpeTokenizer, word: str, rng: np.random.Generator) -> tuple[str, ...]:
    """BPE-dropout word for word as Algorithm 1 of Provilkov 2020 has it: a coin for each merge."""
    order = {
        piece: index
        for index, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))
        if index > 261  # control, special and byte pieces stand before
    }
    symbols = list("\u2581" + word)
    while True:
        possible = [
            (order[left + right], place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in order and rng.random() >= tokenizer.sampling
        ]
        if not possible:
            return tuple(symbols)
        _, place = min(possible)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


def test_the_strength_of_sampling_can_be_another(small: BpeTokenizer) -> None:
    stronger = small.with_sampling(0.9)
    assert (stronger.sampling, small.sampling) == (0.9, 0.3)
    assert stronger.encode_lines(LINES) == small.encode_lines(LINES)
    lengths = [
        sum(map(len, each.encode_lines(LINES, np.random.default_rng(1))))
        for each in (small.with_sampling(0.0), small, stronger)
    ]
    assert lengths[0] < lengths[1] < lengths[2]


@pytest.mark.slow
def test_sampling_has_the_distribution_of_bpe_dropout(small: BpeTokenizer) -> None:
    """Both samples agree with each other within what chance allows, for every segmentation."""
    rng, draws = np.random.default_rng(1), 8000
    for word in ("lower", "newest", "abab"):
        ours = Counter(tuple(small.pieces(ids)) for ids in small.encode_lines([word] * draws, rng))
        theirs = Counter(naive_dropout(small, word, rng) for _ in range(draws))
        assert len(theirs) > 4
        for segmentation in ours | theirs:
            share = (ours[segmentation] + theirs[segmentation]) / (2 * draws)
            deviation = np.sqrt(2 * share * (1 - share) / draws)
            difference = abs(ours[segmentation] - theirs[segmentation]) / draws
            assert difference < 5 * deviation, (segmentation, difference, deviation)


@given(text=st.text(), seed=st.integers(0, 5))
def test_sampled_text_comes_back_and_depends_on_the_generator_alone(
    small: BpeTokenizer, text: str, seed: int
) -> None:
    ids = small.encode(text, np.random.default_rng(seed))
    assert small.decode(ids) == text
    fresh = BpeTokenizer(small.model, small.special, small.sampling)
    assert fresh.encode(text, np.random.default_rng(seed)) == ids


def test_sampling_varies_and_its_strength_counts(small: BpeTokenizer) -> None:
    rng = np.random.default_rng(0)
    assert len({tuple(ids) for ids in small.encode_lines(["newest lower"] * 20, rng)}) > 5
    mild = BpeTokenizer(small.model, small.special, 0.01)
    usual = mild.encode("newest")
    assert mild.encode_lines(["newest"] * 100, rng).count(usual) > 85
    assert small.encode_lines(["newest"] * 100, rng).count(usual) < 50


def test_words_of_a_line_are_drawn_independently(small: BpeTokenizer) -> None:
    lines = small.encode_lines(["newest newest"] * 50, np.random.default_rng(0))
    assert sum(ids[: len(ids) // 2] == ids[len(ids) // 2 :] for ids in lines) < 25


def test_special_pieces_survive_sampling_the_longest_first(small: BpeTokenizer) -> None:
    for ids in small.encode_lines(["low<x>yer<x>"] * 50, np.random.default_rng(0)):
        found = [piece for piece in small.pieces(ids) if "<" in piece]
        assert found == ["<x>y", "<x>"]


@pytest.mark.slow
def test_long_words_take_no_time_squared(small: BpeTokenizer) -> None:
    text = "ab" * 100_000
    assert small.decode(small.encode(text)) == text
    assert small.decode(small.encode(text, np.random.default_rng(0))) == text
