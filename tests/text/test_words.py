import sys

import pytest

from crosshead.text.scripts import UNSPACED, script
from crosshead.text.words import is_long_source, split_words


def test_words_are_lower_case_and_without_punctuation() -> None:
    assert split_words("Don't say: «Hallo», Ärger!") == ["don", "t", "say", "hallo", "ärger"]


def test_letters_of_scripts_without_spaces_are_words() -> None:
    assert split_words("我爱 GPU。") == ["我", "爱", "gpu"]


def test_exactly_the_letters_of_unspaced_scripts_are_words_each() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    letters = [each for each in characters if each.isalpha() and each == each.lower()]
    apart = [each for each in letters if split_words(each * 2) == [each, each]]
    assert apart == [each for each in letters if script(each) in UNSPACED]


@pytest.mark.parametrize(
    ("source", "long"),
    [
        ("Yes.", False), ("- It's late !", False), ("T-shirts here", False), ("12.5 kg", False),
        ("谢谢你", False), ("ครับ", False), ("สวัสดี", False), ("ขอบคุณ", False), ("", False),
        ("GPU 很快", False), ("धन्यवाद", False),
        ("It is late.", True), ("12.5 kg flour", True), ("我今天很高兴", True),
    ],
)  # fmt: skip
def test_a_long_source_has_three_words(source: str, long: bool) -> None:
    assert is_long_source(source) == long
