import html.parser
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.data.documents.html import html_parts
from crosshead.data.documents.parts import rebuilt, texts_of


def shouted(document: str) -> str:
    """The document with every text in capitals."""
    parts = html_parts(document)
    return rebuilt(parts, [text.upper() for text in texts_of(parts)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<p>one <b>two</b> three</p>", "<p>ONE <b>TWO</b> THREE</p>"),
        ("<a href=\"x>y\" title='a>b'>link</a>", "<a href=\"x>y\" title='a>b'>LINK</a>"),
        ("a &lt;b&gt; &amp; c", "A &lt;B&gt; &amp; C"),
        ("1 < 2 and 3", "1 &lt; 2 AND 3"),
        ("<!-- note --><br/>x<hr>", "<!-- note --><br/>X<hr>"),
        ("<script>if (a < b) c('<p>')</script>d", "<script>if (a < b) c('<p>')</script>D"),
        ("<style>p > a {}</style>", "<style>p > a {}</style>"),
        ("see <code>x = <i>1</i></code> here", "SEE <code>x = <i>1</i></code> HERE"),
        ('<i translate="no">Hut <b>ab</b></i> hat', '<i translate="no">Hut <b>ab</b></i> HAT'),
        ('<i class="a notranslate">Hut</i> hat', '<i class="a notranslate">Hut</i> HAT'),
        ("  \n <p>\n  padded\n</p>\n", "  \n <p>\n  PADDED\n</p>\n"),
        (
            "<!DOCTYPE html><html><body>x</body></html>",
            "<!DOCTYPE html><html><body>X</body></html>",
        ),
        ('text <a href="never ends', 'TEXT <a href="never ends'),
        ("<![CDATA[ raw ]]>x", "<![CDATA[ raw ]]>X"),
        ("", ""),
    ],
)
def test_tags_stay_and_texts_change(document: str, expected: str) -> None:
    assert shouted(document) == expected


class Tags(html.parser.HTMLParser):
    """The tags of a document, as the standard library sees them."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)


PIECES = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<b class='x'>",
        "</b>",
        "<br>",
        "a < b",
        "&amp;",
        "&lt;p&gt;",
        "some text",
        " ",
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12), st.text("<>&\"'abc ", max_size=10))
def test_markup_in_a_translation_stays_text(pieces: list[str], translation: str) -> None:
    document = "".join(pieces)
    parts = html_parts(document)
    written = rebuilt(parts, [translation] * len(texts_of(parts)))
    assert Tags(written).found == Tags(document).found


@settings(deadline=None)
@given(st.text("<>/!-&;'\"ab= \n", max_size=60))
def test_markup_of_any_kind_is_kept_to_the_letter(document: str) -> None:
    parts = html_parts(document)
    kept = [part.text for part in parts if not part.translated]
    position = 0
    for text in kept:
        position = document.index(text, position) + len(text)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ['<a "', "<", "<!--", "<a <b", "&lt;", "<script>"])
def test_a_megabyte_of_broken_markup_takes_no_longer_than_a_megabyte(piece: str) -> None:
    """A quadratic parser would need minutes; the limit is far above what a linear one needs."""
    begin = time.process_time()
    html_parts(piece * (2**20 // len(piece)))
    assert time.process_time() - begin < 20
