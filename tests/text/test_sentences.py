import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.sentences import join_parts, longest_stretch, split_long, split_sentences

TEXT = st.text(alphabet='ab Z.!?…,;。！，"”)\n\t1é\u3000', max_size=60) | st.text(max_size=30)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (None, "A dog runs. |It barks!  |Why? |Done…"),
        ("en", '"Go!" he said. |"Now." |Fine.'),
        ("en", "It costs 3.14 euros. |Really. |Done"),
        ("en", "Mr. Smith met Dr. J. S. Bach. |See No. 10 of the U.S. Army. |Yes"),
        ("en", 'This is a disaster." |Then he left.'),
        ("en", "Wait... what? |See www.Example.org. |Ok"),
        ("de", "Am 3. Mai, z.B. 5 Mio. Euro. |Das 19. Jahrhundert. |Das war 1985. |Dann"),
        ("fr", "« Bonjour. » |M. Dupont part. |Oui."),
        ("zh", "你好。|今天很好！|“是吗？”|对"),
        ("hi", "यह है। |वह है।"),
        ("no-such-language", "One.\u3000|Two\x85. |Three.\u3000|. \ud800"),
        ("en", "  Hello there"),
        ("en", " "),
        ("en", ""),
    ],
)
def test_sentences_end_where_they_end(language: str | None, text: str) -> None:
    sentences = [each for each in text.split("|") if each]
    assert split_sentences("".join(sentences), language) == sentences


def test_a_sentence_without_an_end_is_cut_behind_a_word() -> None:
    sentences = split_sentences("“" + "a word " * 1000 + "I")
    assert len(sentences) == 4 and all(each.endswith(" ") for each in sentences[:-1])


@given(TEXT)
def test_sentences_make_up_their_paragraph_and_none_is_blank(paragraph: str) -> None:
    sentences = split_sentences(paragraph)
    assert "".join(sentences) == paragraph
    assert all(sentence.strip() for sentence in sentences) or sentences == [paragraph]


@given(TEXT, st.integers(1, 12))
def test_parts_make_up_their_text_and_fit(text: str, limit: int) -> None:
    parts = split_long(text, len, limit)
    assert "".join(parts) == text
    assert all(len(part.strip()) <= limit for part in parts)
    assert all(part.strip() for part in parts) or parts == [text]


def test_a_long_sentence_is_cut_at_clauses_then_at_spaces_then_anywhere() -> None:
    def words(text: str) -> int:
        return len(text.split())

    text = "One two, three four, five. Six seven eight nine. Ten"
    assert split_long(text, words, 4) == [
        "One two, three four, ",
        "five. ",
        "Six seven eight nine. ",
        "Ten",
    ]
    assert split_long(text, words, 3) == [
        "One two, ", "three four, five. ", "Six seven eight ", "nine. ", "Ten",
    ]  # fmt: skip
    assert split_long("abcdefgh", len, 3) == ["ab", "cd", "ef", "gh"]


@pytest.mark.parametrize(
    ("text", "length"),
    [("", 0), ("  one three ", 5), ("ab。Cdef，g", 5), ("One. Two,three", 9), ("x" * 30, 30)],
)
def test_a_stretch_ends_where_a_line_can_be_cut(text: str, length: int) -> None:
    assert longest_stretch(text) == length


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "x" * 10**6,
        "word " * 200_000,
        "A b. " * 200_000,
        "." * 10**6 + "a",
        ")" * 10**6,
        " ." * 10**5,
        "好。" * 10**5,
    ],
)
def test_a_megabyte_is_measured_a_few_times_over_and_not_more(text: str) -> None:
    measured = 0

    def length(part: str) -> int:
        nonlocal measured
        measured += len(part)
        return len(part)

    assert "".join(split_long(text, length, 100)) == text
    assert measured < 60 * len(text)


@pytest.mark.parametrize(
    ("parts", "translations", "line"),
    [
        (["One. ", " Two.\t"], ["Eins.", "Zwei."], "Eins.  Zwei.\t"),
        (["你好。", "对"], ["Hello.", "Yes"], "Hello. Yes"),
        (["你好。", "对"], ["今日は。", "はい"], "今日は。はい"),
        (["ab", "cd"], ["AB", "CD"], "ABCD"),
        (["One.\r\n", "Two."], ["Eins.", "Zwei."], "Eins. Zwei."),
        (["a. ", "b"], ["", "B"], " B"),
    ],
)
def test_translations_are_set_apart_as_their_parts_were(
    parts: list[str], translations: list[str], line: str
) -> None:
    assert join_parts(parts, translations) == line


@given(TEXT, st.integers(1, 12))
def test_parts_that_are_their_own_translation_give_the_text_back(text: str, limit: int) -> None:
    parts = split_long(text, len, limit)
    line = join_parts(parts, [part.strip() for part in parts])
    assert "".join(line.split()) == "".join(text.split())
    assert "\n" not in line
