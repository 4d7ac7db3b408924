import numpy as np
import pytest

from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.noise import (
    Noise,
    Noised,
    typing_error,
    without_end,
)
from crosshead.text.symbols import ByteTokenizer

TOKENIZER = ByteTokenizer(["<2de>"])
TAG = frozenset(TOKENIZER.encode("<2de>"))
LINES = [("A dog runs home.", "Ein Hund läuft heim."), ("Two men, one dog!", "Zwei Männer!")] * 300
PAIRS = Examples.of([(TOKENIZER.encode(a), TOKENIZER.encode(b)) for a, b in LINES])


def noised(share: float = 0.5, epoch: int = 0, longest: int = 99) -> Noised:
    noise = Noise.of(PAIRS, (TOKENIZER, TOKENIZER), share, 1, longest, TAG)
    return Noised(PAIRS, noise, epoch)


def test_a_sentence_loses_its_end() -> None:
    found = without_end("A dog runs.", "Ein Hund läuft.", np.random.default_rng(1))
    assert found == ("A dog runs", "Ein Hund läuft")


@pytest.mark.parametrize("pair", [("A dog", "Ein Hund."), ("?", "!"), ("Ja.", "Yes")])
def test_only_pairs_with_two_ends_lose_them(pair: tuple[str, str]) -> None:
    assert without_end(*pair, np.random.default_rng(1)) == pair


def test_letters_that_may_be_words_stay() -> None:
    line = "我不喜欢吃苹果"
    assert typing_error(line, "x", np.random.default_rng(1)) == (line, "x")


def test_a_typing_error_changes_one_letter_inside_a_word() -> None:
    draw = np.random.default_rng(1)
    for _ in range(99):
        source, target = typing_error("ab abcde 12", "x", draw)
        assert target == "x"
        assert source.startswith("ab a")
        assert source.endswith(" 12")
        assert source != "ab abcde 12"
        assert abs(len(source) - len("ab abcde 12")) <= 1
    assert typing_error("a 12", "x", draw) == ("a 12", "x")


def test_a_share_of_the_pairs_has_noise_anew_in_each_epoch() -> None:
    changed = [a != b for a, b in zip(noised(0.2), PAIRS, strict=True)]
    assert np.mean(changed) == pytest.approx(0.2, abs=0.06)
    assert list(noised(0.2)) == list(noised(0.2))
    assert changed != [a != b for a, b in zip(noised(0.2, epoch=1), PAIRS, strict=True)]


def test_lengths_are_room_for_the_noise() -> None:
    for longest in (99, 17):
        some = noised(1.0, longest=longest)
        for room, example in zip(some.lengths, some, strict=True):
            assert all(len(side) <= most for side, most in zip(example, room, strict=True))


def test_the_tag_of_a_language_stays() -> None:
    ids = TOKENIZER.encode("<2de>a dog.")
    pairs = Examples.of([(ids, TOKENIZER.encode("ein Hund."))] * 50)
    noise = Noise.of(pairs, (TOKENIZER, TOKENIZER), 1.0, 1, 99, TAG)
    sources = [TOKENIZER.decode(source) for source, _ in Noised(pairs, noise, 0)]
    assert all(source.startswith("<2de>") for source in sources)
    assert "<2de>a dog" in sources
