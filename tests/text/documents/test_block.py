import pytest

from crosshead.text.documents.block import Block
from crosshead.text.documents.document import TextPart, rebuilt, texts_of
from crosshead.text.marks import FIRST, MOST, without_tags


def block(*items: str) -> Block:
    """A block of texts and of tags: `<b`, `>b` and `/` are an opening, a closing and a lone tag."""
    found = Block()
    for item in items:
        if item[0] == "<":
            found.mark([TextPart(item)], "open", item[1:])
        elif item[0] == ">":
            found.mark([TextPart(item)], "close", item[1:])
        elif item[0] == "/":
            found.mark([TextPart(item)])
        else:
            found.add(item)
    return found


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["a ", "<b", "c", ">b", " d"], "a c d"),
        (["<b", "a", ">b"], "a"),
        (["/", " ", "a", "/"], "a"),
        (["<b", "a", ">b", " c"], "a c"),
        (["a", "<b", "c"], "ac"),
        (["a", ">b", "c"], "ac"),
    ],
)
def test_a_block_is_one_text_and_its_markup_stays(items: list[str], text: str) -> None:
    parts = block(*items).parts()
    [found] = texts_of(parts)
    assert without_tags(found) == text
    expected = [item if item[0] in "<>/" else item.upper() for item in items]
    assert rebuilt(parts, [found.upper()]) == "".join(expected)


def test_a_block_without_text_has_nothing_to_translate() -> None:
    parts = block("<b", " ", "/", ">b").parts()
    assert texts_of(parts) == [] and rebuilt(parts, []) == "<b />b"


def test_markup_around_everything_is_no_mark() -> None:
    assert texts_of(block("<a", "<b", "x", ">b", ">a").parts()) == ["x"]


def test_a_character_of_a_mark_in_the_text_is_none() -> None:
    found = Block()
    found.add(f"a{chr(FIRST)}b")
    assert texts_of(found.parts()) == ["a\ufffdb"]


def test_a_blank_translation_leaves_the_text() -> None:
    parts = block("a ", "<b", "c", ">b", " d").parts()
    [text] = texts_of(parts)
    marks = "".join(each for each in text if ord(each) >= FIRST)
    assert rebuilt(parts, [marks]) == "a <bc>b d"


def test_a_block_of_too_many_tags_has_a_text_for_each_piece() -> None:
    found = Block()
    for _ in range(MOST // 2 + 1):
        found.add("a")
        found.mark([TextPart("/")])
    found.add("a")
    parts = found.parts()
    assert set(texts_of(parts)) == {"a"}
    assert rebuilt(parts, texts_of(parts)) == "a/" * (MOST // 2 + 1) + "a"
