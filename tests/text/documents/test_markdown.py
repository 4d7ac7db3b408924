import pytest

from crosshead.text.documents.document import Document, rebuilt, texts_of
from crosshead.text.documents.markdown import markdown_parts
from crosshead.text.marks import without_tags


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
        (r"a \*star\* and \[x\]\(y\)", r"A \*STAR\* AND \[X\]\(Y\)"),
        (r"a \<script>x\</script>", r"A \<SCRIPT>X\</SCRIPT>"),
        ("see [the page](a.md) now", "SEE [THE PAGE](a.md) NOW"),
        ("![a picture](x.png)", "![A PICTURE](x.png)"),
        ("[ref]: http://a.b/c 'x'\n", "[ref]: http://a.b/c 'x'\n"),
        ("go to https://a.b/c_d today", "GO TO https://a.b/c_d TODAY"),
        ("**bold** and _more_ snake_case", "**BOLD** AND _MORE_ SNAKE_CASE"),
        ("| a | b |\n|---|:-:|\n| c | 1 |\n", "| A | B |\n|---|:-:|\n| C | 1 |\n"),
        ("---\ntitle: x\n---\ntext\n", "---\ntitle: x\n---\nTEXT\n"),
        ("a <b>tag</b>", "A <b>TAG</b>"),
        ('[x](http://x.y/a(b(c))d "t") y', '[X](http://x.y/a(b(c))d "t") Y'),
        ("[x]( b ) [y](<b c> 'd') z", "[X]( b ) [Y](<b c> 'd') Z"),
        ('<b title="a>b">x</b> y', '<b title="a>b">X</b> Y'),
        ("see http://a.b/c_(d) or <me@a-b.org>.", "SEE http://a.b/c_(d) OR <me@a-b.org>."),
        ("\tx = 1\n\ny\n", "\tx = 1\n\nY\n"),
        ("- a\n\n\tb\n\n\t- c\n\n        d\n", "- A\n\n\tB\n\n\t- C\n\n        D\n"),
        ("- a\n\n      x\n\nb\n\n    y\n", "- A\n\n      x\n\nB\n\n    y\n"),
        ("<script>\na\n\nb\n</script>\nc", "<script>\na\n\nb\n</script>\nC"),
        ("<SCRIPT>a</script>\nc", "<SCRIPT>a</script>\nC"),
        ("<pre>\na\n\nb\n</pre>\nc", "<pre>\na\n\nb\n</pre>\nC"),
        ("<!-- a\n\nb -->\nc <!-- d > e --> f", "<!-- a\n\nb -->\nC <!-- d > e --> F"),
        ("<? a\n\nb ?>\nc <? d > e ?> f", "<? a\n\nb ?>\nC <? d > e ?> F"),
        ("`` a`b `` c ` d `` e", "`` a`b `` C ` D `` E"),
        ("``` a ``` b\n", "``` a ``` B\n"),
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
    assert texts_of(markdown_parts("zero\none  \ntwo")) == ["zero one", "two"]


def test_a_translation_begins_no_tag() -> None:
    [text] = [part for part in markdown_parts("a <\u00adscript>b") if part.translated]
    assert rebuilt([text], ["a <script>b < c"]) == r"a \<script>b < c"


def test_a_reference_to_a_note_stays() -> None:
    document = Document.of("A man[^1] sits.\n\n[^1]: A note.\n", markdown_parts)
    assert [without_tags(each) for each in document.sentences] == ["A man sits."]
    assert document.with_translations(document.sentences) == "A man[^1] sits.\n\n[^1]: A note.\n"
