"""Signs of a bad translation: each is seen, and good translations have none."""

import pytest

from crosshead.data.text.signs import is_copy, repeats_itself


@pytest.mark.parametrize(
    "text",
    ["a man in a man in a man in a man in a", "ein ein ein ein", "的的的的的的的",
     "hahahahahahahaha", '"' * 20,
     "the dog, and so the dog, and so the dog, and so the dog, and so"],
)  # fmt: skip
def test_texts_that_repeat_themselves(text: str) -> None:
    assert repeats_itself(text)


@pytest.mark.parametrize(
    "text",
    ["", "very very good", "no, no, no", "Wait......... what?", "1 000 000 000 000 000",
     "----------", "Ein Mann und ein Mann und eine Frau"],
)  # fmt: skip
def test_texts_that_do_not_repeat_themselves(text: str) -> None:
    assert not repeats_itself(text)


def test_a_long_text_is_looked_at_quickly() -> None:
    assert not repeats_itself(" ".join(f"word{n}" for n in range(20_000)))
    assert not repeats_itself("".join(chr(0x4E00 + n % 5000) for n in range(20_000)))


@pytest.mark.parametrize(
    "output",
    ["A man rides a bike.", "a MAN rides a bike", " A man, rides  a bike! "],
)  # fmt: skip
def test_a_copy_has_the_words_of_its_source(output: str) -> None:
    assert is_copy("A man rides a bike.", output)


@pytest.mark.parametrize(
    ("source", "output"),
    [("A man rides a bike.", "Ein Mann fährt Rad."), ("A man rides a bike.", "A man rides."),
     ("Anna Maria", "Anna Maria"), ("2021 - 2022 (7)", "2021 - 2022 (7)"), ("a b c", "a b c"),
     ("", "")],
)  # fmt: skip
def test_other_texts_and_short_names_are_no_copies(source: str, output: str) -> None:
    assert not is_copy(source, output)
