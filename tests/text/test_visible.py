import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.visible import visible


@pytest.mark.parametrize(
    "space",
    ["\u00a0", "\u202f", "\u3000", "\u2009", "\t", "\x07", "\0\x1f", " \u00a0", "\u200b \u00a0"],
)
def test_white_space_is_a_space(space: str) -> None:
    assert visible(f"June{space}7") == "June 7"


def test_every_space_and_control_character_is_a_space() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    spaces = [each for each in characters if each.isspace() or category(each) == "Cc"]
    assert {visible(f"é{each}7") for each in spaces} == {"é 7"}


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\ufeff", "\u206a", "\ufe0f", "\u180e"])
def test_marks_without_width_are_left_out(mark: str) -> None:
    assert visible(f"Mon{mark}day{mark}") == "Monday"


@pytest.mark.parametrize("word", ["می\u200cخواهم", "क\u094d\u200dष", "ന\u0d4d\u200d"])
def test_joiners_stay_where_they_change_letters(word: str) -> None:
    assert visible(f"{word} \u200ca\u200cb") == f"{word} ab"


@given(st.text())
def test_reading_twice_changes_nothing(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(categories=["L", "N", "P"])))
def test_letters_stay(text: str) -> None:
    assert visible(text) == text
