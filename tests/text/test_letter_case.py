import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.letter_case import in_capitals, recased

KNOWN = {"a", "the", "in", "man", "coat", "is", "it", "Berlin", "NASA", "Monday", "Hund", "hund"}


def cost(text: str) -> int:
    """Return the number of tokens if known words are one token, and others are spelled."""
    return sum(1 if word in KNOWN else len(word) for word in text.rstrip(".!?").split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("THE MAN IS IN BERLIN.", "The man is in Berlin."),
        ("A MAN IS IN IT! IT IS NASA", "A man is in it! It is NASA"),
        ("The Man Is In Berlin.", "The man is in Berlin."),
        ("The Man in a Coat Is in Berlin", "The man in a coat is in Berlin"),
        ("it is monday", "it is Monday"),
        ("A4 IS THE MAN", "A4 is the man"),
        ("it is the hund", "it is the hund"),
    ],
)
def test_a_text_in_one_case_has_words_that_are_known(text: str, expected: str) -> None:
    assert recased(text, cost) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("ΩΣ ΠΑΜΕ", "Ως παμε"), ("ǇUBAV JE", "ǈubav je"), ("É VOILÀ", "É voilà")]
)
def test_letters_have_the_forms_of_their_places(text: str, expected: str) -> None:
    assert recased(text, lambda each: sum(map(str.isupper, each))) == expected


@pytest.mark.parametrize("text", ["The man IS in berlin.", "I", "USA", "NASA", "Berlin Mitte", ""])
def test_other_texts_stay(text: str) -> None:
    assert recased(text, cost) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("OK", True), ("I", False), ("É, À!", True), ("OK a", False), ("12", False), ("漢字", False)],
)
def test_capitals_are_two_letters_or_more(text: str, expected: bool) -> None:
    assert in_capitals(text) == expected


@given(st.text())
def test_words_keep_their_letters_and_places(text: str) -> None:
    found = recased(text, lambda each: sum(map(ord, each)))
    assert len(found) == len(text)
    assert found.lower() == text.lower()
