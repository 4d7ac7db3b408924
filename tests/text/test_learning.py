import random
from collections.abc import Sequence

import pytest

from crosshead.text import learning
from crosshead.text.learning import (
    learn_tokenizer,
    learn_tokenizers,
    vocabulary_size,
)
from crosshead.text.parallel.pairs import Origin, ParallelText
from crosshead.text.tokenizers import MOST_PIECES, Tokenizer, TokenizerConfig, VocabularyError


def parallel(source: Sequence[str], target: Sequence[str]) -> ParallelText:
    return ParallelText(list(source), list(target), [Origin("f", 1)] * len(source))


def sentences(count: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz") -> list[str]:
    rng = random.Random(1)
    words = ["".join(rng.choices(alphabet, k=rng.randint(2, 8))) for _ in range(3000)]
    return [" ".join(rng.choices(words, k=8)) for _ in range(count)]


@pytest.mark.parametrize(
    ("words", "joint", "expected"),
    [
        (400, True, 500),  # the least
        (50_000, True, 3000),  # of 100,000 words
        (50_000, False, 2100),
        (10_000_000, True, 8000),  # the most
    ],
)
def test_a_vocabulary_grows_with_the_words(words: int, joint: bool, expected: int) -> None:
    lines = ["w " * 100] * (words // 100)
    assert vocabulary_size(parallel(lines, lines), joint=joint) == expected


def test_a_line_that_is_left_out_does_not_make_the_vocabulary_large() -> None:
    usual = parallel(["a b c"] * 100, ["d e f"] * 100)
    with_one = parallel(["a b c"] * 99 + ["x y " * 250_000], ["d e f"] * 100)
    assert vocabulary_size(with_one, joint=True) == vocabulary_size(usual, joint=True)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_an_open_size_is_no_more_than_the_text_allows(kind: str) -> None:
    text = parallel(["ab ba ab"] * 40, ["ba ab"] * 40)
    config = TokenizerConfig(kind=kind)  # type: ignore[arg-type]
    chosen, source, target = learn_tokenizers(config, text)
    assert source is target
    assert chosen.vocab_size == source.vocab_size < 500
    with pytest.raises(VocabularyError):  # one more would be too many
        learn_tokenizers(chosen.model_copy(update={"vocab_size": source.vocab_size + 1}), text)
    again, same, _ = learn_tokenizers(chosen, text)
    assert again == chosen
    assert same.pieces(range(same.vocab_size)) == source.pieces(range(source.vocab_size))


def test_an_open_size_holds_the_characters_of_a_large_alphabet() -> None:
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + 800)))
    text = parallel(sentences(400, alphabet), sentences(400))
    chosen, source, _ = learn_tokenizers(TokenizerConfig(), text)
    assert chosen.vocab_size == source.vocab_size > 800 + 256 + 4
    assert any(len(piece.strip("\u2581")) > 1 for piece in source.pieces(range(260, 1000)))


def test_two_vocabularies_have_one_size_that_fits_both() -> None:
    text = parallel(sentences(400), [*sentences(1), *["ab ba"] * 399])
    chosen, source, target = learn_tokenizers(TokenizerConfig(joint=False), text)
    assert chosen.vocab_size == source.vocab_size == target.vocab_size < 500
    assert source.pieces(range(260, 290)) != target.pieces(range(260, 290))


def test_two_vocabularies_that_cannot_have_one_size_are_refused() -> None:
    alphabet = "".join(map(chr, range(0x4E00, 0x4E00 + 800)))
    text = parallel(sentences(400, alphabet), ["ab ba"] * 400)
    with pytest.raises(VocabularyError):
        learn_tokenizers(TokenizerConfig(joint=False), text)


def test_of_two_sides_the_size_that_fits_both_is_advised() -> None:
    text = parallel(sentences(400), [*sentences(1), *["ab ba"] * 399])
    config = TokenizerConfig(joint=False, vocab_size=5000)
    with pytest.raises(VocabularyError) as caught:
        learn_tokenizers(config, text)
    fits = config.model_copy(update={"vocab_size": caught.value.fits})
    _, source, target = learn_tokenizers(fits, text)
    assert source.vocab_size == target.vocab_size == caught.value.fits


def test_a_stated_size_that_does_not_fit_is_refused() -> None:
    text = parallel(["ab ba ab"] * 40, ["ba ab"] * 40)
    with pytest.raises(VocabularyError, match="vocab_size=400 is larger"):
        learn_tokenizers(TokenizerConfig(vocab_size=400), text)


@pytest.mark.parametrize("kind", ["words", "characters", "bytes"])
def test_other_kinds_have_an_upper_bound(kind: str) -> None:
    config = TokenizerConfig(kind=kind)  # type: ignore[arg-type]
    chosen, source, _ = learn_tokenizers(config, parallel(["ab ba"], ["ba"]))
    assert chosen.vocab_size == MOST_PIECES
    assert source.vocab_size < 300


def test_a_large_text_is_learned_from_by_a_sample_spread_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = parallel([f"word{number}" for number in range(100)], ["x"] * 100)
    monkeypatch.setattr(learning, "MOST_PAIRS", 40)
    _, source, target = learn_tokenizers(TokenizerConfig(kind="words"), text)
    assert source is target
    known = [number for number in range(100) if "<unk>" not in spoken(source, f"word{number}")]
    assert known == list(range(0, 100, 3))


def spoken(tokenizer: Tokenizer, line: str) -> str:
    return tokenizer.decode(tokenizer.encode(line))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_of_pairs_nothing_is_learned_from_the_white_space_around_lines(kind: str) -> None:
    lines = sentences(300)
    spaced = [f"\t{line} \u3000" for line in lines]
    config = TokenizerConfig(kind=kind)
    _, learned, _ = learn_tokenizers(config, parallel(spaced, spaced))
    _, plain, _ = learn_tokenizers(config, parallel(lines, lines))
    every = list(range(learned.vocab_size))
    assert learned.pieces(every) == plain.pieces(every)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_of_a_text_the_white_space_around_lines_is_a_part(kind: str) -> None:
    """As the tabs of code, which stand nowhere else."""
    code = ["def f(x):", "\treturn x", "", "\t\tpass "]
    _, learned = learn_tokenizer(TokenizerConfig(kind=kind), code)
    for line in code:
        assert learned.decode(learned.encode(line)) == line


def test_a_text_on_one_line_has_a_vocabulary_for_all_its_words() -> None:
    config, learned = learn_tokenizer(TokenizerConfig(), [" ".join(sentences(8000))])
    assert config.vocab_size == learned.vocab_size == 2400  # of 64,000 words


def test_a_size_that_the_text_does_not_allow_is_refused_with_the_largest() -> None:
    few = parallel(["a b"] * 3, ["b a"] * 3)
    with pytest.raises(VocabularyError, match="the largest that fits is") as caught:
        learn_tokenizers(TokenizerConfig(vocab_size=50_000), few)
    assert str(caught.value).endswith(f"--set tokenizer.vocab_size={caught.value.fits}")
