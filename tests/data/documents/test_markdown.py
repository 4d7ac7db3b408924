import pytest

from crosshead.data.documents.markdown import markdown_parts
from crosshead.data.documents.parts import rebuilt, texts_of


def shouted(document: str) -> str:
    parts = markdown_parts(document)
    return rebuilt(parts, [text.upper() for text in texts_of(parts)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("# a title\n\ntext\n", "# A TITLE\n\nTEXT\n"),
        ("- one\n- [ ] two\n1. three\n", "- ONE\n- [ ] TWO\n1. THREE\n"),
        ("> quoted\n", "> QUOTED\n"),
        ("```sh\nrun it\n```\nafter\n", "```sh\nrun it\n```\nAFTER\n"),
        ("~~~\n```\nx\n~~~\ny", "~~~\n```\nx\n~~~\nY"),
        ("use `code` here", "USE `code` HERE"),
        ("see [the page](a.md) now", "SEE [THE PAGE](a.md) NOW"),
        ("![a picture](x.png)", "![A PICTURE](x.png)"),
        ("[ref]: http://a.b/c 'x'\n", "[ref]: http://a.b/c 'x'\n"),
        ("go to https://a.b/c_d today", "GO TO https://a.b/c_d TODAY"),
        ("**bold** and _more_ snake_case", "**BOLD** AND _MORE_ SNAKE_CASE"),
        ("| a | b |\n|---|:-:|\n| c | 1 |\n", "| A | B |\n|---|:-:|\n| C | 1 |\n"),
        ("---\ntitle: x\n---\ntext\n", "---\ntitle: x\n---\nTEXT\n"),
        ("a <b>tag</b>", "A <b>TAG</b>"),
        ("", ""),
    ],
)
def test_marks_stay_and_texts_change(document: str, expected: str) -> None:
    assert shouted(document) == expected


def test_the_lines_of_a_paragraph_are_one_text() -> None:
    document = "A sentence that\ngoes on. Another\none.\n\nNew one.\n- item\n"
    assert texts_of(markdown_parts(document)) == [
        "A sentence that goes on. Another one.", "New one.", "item",
    ]  # fmt: skip
    assert shouted(document).count("\n\n") == 1


def test_a_hard_break_ends_a_text() -> None:
    assert texts_of(markdown_parts("one  \ntwo\\\nthree\n")) == ["one", "two\\", "three"]
