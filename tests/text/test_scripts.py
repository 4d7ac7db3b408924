import random
import sys

import pytest

from crosshead.text import scripts
from crosshead.text.scripts import (
    UNSPACED,
    foreign_share,
    is_long_source,
    letters_by_script,
    script,
    split_words,
    word_hashes,
)


@pytest.mark.parametrize(
    ("character", "name"),
    [("a", "LATIN"), ("é", "LATIN"), ("ж", "CYRILLIC"), ("λ", "GREEK"), ("犬", "CJK"),
     ("い", "HIRAGANA"), ("ي", "ARABIC"), ("7", ""), (" ", ""), ("!", ""), ("🙂", "")],
)  # fmt: skip
def test_a_letter_has_a_script_and_other_characters_have_none(character: str, name: str) -> None:
    assert script(character) == name


def test_the_letters_of_all_texts_are_counted_once() -> None:
    assert letters_by_script(["ab λ 12", "c!"]) == {"LATIN": 3, "GREEK": 1}
    assert not letters_by_script(["12 !", ""])


def test_only_unknown_scripts_are_foreign() -> None:
    known = {"LATIN": 0.9, "GREEK": 0.1}
    assert foreign_share("abc λ 12", known) == 0.0
    assert foreign_share("abc де", known) == 0.4
    assert foreign_share("12 !", known) == 0.0


def test_words_are_lower_case_and_without_punctuation() -> None:
    assert split_words("Don't say: «Hallo», Ärger!") == ["don", "t", "say", "hallo", "ärger"]


def test_letters_of_scripts_without_spaces_are_words() -> None:
    assert split_words("我爱 GPU。") == ["我", "爱", "gpu"]


@pytest.mark.parametrize(("letters", "block"), [(1, 1 << 17), (2, 20), (100, 0)])
def test_equal_words_have_equal_hashes(
    letters: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_BLOCK", block)
    lines = ["Ja, «Äpfel»!", "", "我爱 GPU。", "ΟΔΟΣ", "one\ntwo 3", "ไทย-text", "İstanbul", " "]
    rng = random.Random(1)
    pool = "aZ9_ -\t\r\u2028我爱ダกาÄßİΣσ\u0301\u0378\U00020000\ud800.,'"
    lines += ["".join(rng.choices(pool, k=rng.randrange(12))) for _ in range(500)]
    split = [(row, word[:letters]) for row, line in enumerate(lines) for word in split_words(line)]
    hashes, rows = word_hashes(iter(lines), letters)
    assert rows.tolist() == [row for row, _ in split]
    words = [word for _, word in split]
    assert len(set(zip(hashes.tolist(), words, strict=True))) == len(set(words))
    assert len(set(hashes.tolist())) == len(set(words))
    assert [len(each) for each in word_hashes([])] == [0, 0]


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
