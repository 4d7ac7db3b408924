import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.documents.document import rebuilt, texts_of
from crosshead.text.documents.xml import xml_parts


def shouted(document: str, **options: list[str]) -> str:
    parts = xml_parts(document, **options)
    return rebuilt(parts, [text.upper() for text in texts_of(parts)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('one <x id="22"></x> two', 'ONE <x id="22"></x> TWO'),
        ('one <x a="1>2"/>two<!-- a --> three', 'ONE <x a="1>2"/>TWO<!-- a --> THREE'),
        ("a &lt;b&gt; &amp; c", "A &lt;B&gt; &amp; C"),
        ("1 < 2", "1 &lt; 2"),
        ("<p>one</p> <p>two</p>", "<p>ONE</p> <p>TWO</p>"),
        ("", ""),
        ("<x/>", "<x/>"),
    ],
)
def test_tags_stay_and_texts_change(document: str, expected: str) -> None:
    assert shouted(document) == expected


def test_a_sentence_goes_on_after_a_tag_that_does_not_split() -> None:
    document = "<p>one <b>two</b></p><p>three</p>"
    assert len(texts_of(xml_parts(document))) == 1
    assert len(texts_of(xml_parts(document, splitting=["p"]))) == 2
    assert shouted(document, splitting=["p"]) == "<p>ONE <b>TWO</b></p><p>THREE</p>"


@pytest.mark.parametrize(
    "kept", ["<x>one</x>", "<x>a<x>b</x>c</x>", "<x><y>b</x>", "<x/>", "<x>never ends"]
)
def test_the_content_of_ignored_tags_stays(kept: str) -> None:
    assert shouted(f"two {kept}", ignored=["x"]) == f"TWO {kept}"


@pytest.mark.parametrize("start", ["<!-- ", "<? ", "<![CDATA[ "])
def test_markup_that_never_ends_stays(start: str) -> None:
    assert shouted(f"two {start}one") == f"TWO {start}one"


@given(st.text("<>/!-&;'\"ax= \n", max_size=40))
def test_markup_of_any_kind_is_kept(document: str) -> None:
    tags, parts = re.compile(r"<[^<>]*>"), xml_parts(document)
    found = [tags.findall(text.lower()) for text in (document, rebuilt(parts, texts_of(parts)))]
    assert shouted(document).lower() == rebuilt(parts, texts_of(parts)).lower()
    assert len(found[1]) <= len(found[0])
