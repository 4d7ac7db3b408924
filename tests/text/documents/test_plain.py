import time

import pytest

from crosshead.text.documents.document import Document, rebuilt, texts_of
from crosshead.text.documents.plain import flowing_parts, plain_parts
from crosshead.text.marks import without_tags


@pytest.mark.parametrize("text", ["a\nb", "a\r\n\r\n b \n", "\n", "", "a\u2028b\x0bc", " x "])
def test_a_plain_text_is_its_lines_and_their_ends(text: str) -> None:
    parts = plain_parts(text)
    assert rebuilt(parts, texts_of(parts)) == text
    assert texts_of(parts) == [
        line for line in text.replace("\r\n", "\n").split("\n") if line.strip()
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\nb", "a b"), ("\n a \r\n\n b c\t\n", "\n a b c\t\n"), (" \n", " \n"), ("", "")],
)
def test_line_breaks_in_a_flowing_text_are_spaces(text: str, expected: str) -> None:
    parts = flowing_parts(text)
    assert rebuilt(parts, texts_of(parts)) == expected
    assert len(texts_of(parts)) == bool(text.strip())


def test_a_long_space_is_read_once() -> None:
    used = []
    for size in (20_000, 80_000):
        begin = time.process_time()
        assert len(flowing_parts("a" + " " * size + "b")) == 1
        used.append(time.process_time() - begin)
    assert used[1] < 10 * max(used[0], 0.05)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<i>A man.</i> Two dogs.", ["A man.", "Two dogs."]),
        ("A man.<br> Two dogs.", ["A man.", "Two dogs."]),
        ("<b>Two men. A dog is</b> <b>playing. People.</b>",
         ["Two men.", "A dog is playing.", "People."]),
    ],
)  # fmt: skip
def test_tags_hide_no_end_of_a_sentence_and_keep_their_order(
    text: str, sentences: list[str]
) -> None:
    document = Document.of(text, plain_parts)
    assert [without_tags(each) for each in document.sentences] == sentences
    assert document.with_translations(document.sentences) == text
