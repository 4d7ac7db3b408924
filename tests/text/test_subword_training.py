import pytest

from crosshead.errors import DataError
from crosshead.text.subword_training import VocabularyError, train_model
from crosshead.text.subwords import BpeTokenizer
from tests.text.test_subwords import LINES


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_large_names_the_largest_which_then_fits(kind: str) -> None:
    with pytest.raises(VocabularyError, match="vocab_size=50000 is larger than the data") as caught:
        train_model(kind, LINES, 50_000, [])
    largest = caught.value.fits
    train_model(kind, LINES, largest, [])
    for size in (largest + 1, 2**31, 10**30):
        with pytest.raises(VocabularyError, match=f"--set tokenizer.vocab_size={largest}$"):
            train_model(kind, LINES, size, [])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_small_names_the_smallest_which_then_fits(kind: str) -> None:
    with pytest.raises(VocabularyError, match="vocab_size=100 is too small") as caught:
        train_model(kind, LINES, 100, ["<x>"])
    smallest = caught.value.fits
    train_model(kind, LINES, smallest, ["<x>"])
    for size in (1, 3, smallest - 1):
        with pytest.raises(VocabularyError, match=f"--set tokenizer.vocab_size={smallest}$"):
            train_model(kind, LINES, size, ["<x>"])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_lines_are_learned_from(kind: str) -> None:
    line = "Donaudampfschiff " * 20_000 + "z" * 200_000
    tokenizer = BpeTokenizer(train_model(kind, [line], 285, []))
    pieces = tokenizer.pieces(range(260, 285))
    assert any(len(piece) > 1 and piece in "\u2581Donaudampfschiff" for piece in pieces)
    assert any(len(piece) > 1 and set(piece) == {"z"} for piece in pieces)


@pytest.mark.parametrize("odd", ["\u2585", "\u2581", "\0", "\t", "<unk>"])
def test_lines_with_odd_characters_are_learned_from(odd: str) -> None:
    model = train_model("bpe", [f"newest {odd} newest"] * 100 + ["lower"], 276, [])
    pieces = BpeTokenizer(model).pieces(range(260, 276))
    assert any(len(piece) > 2 and piece in "newest" for piece in pieces)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_nothing_to_learn_from(lines: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn a tokenizer from"):
        train_model("bpe", lines, 300, [])
