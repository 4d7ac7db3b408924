import html.parser
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.documents.document import Document, rebuilt, texts_of
from crosshead.text.documents.html import html_parts


def shouted(document: str) -> str:
    """The document with every text in capitals."""
    parts = html_parts(document)
    return rebuilt(parts, [text.upper() for text in texts_of(parts)])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<p>one <b>two</b> three</p>", "<p>ONE <b>TWO</b> THREE</p>"),
        ("<a href=\"x>y\" title='a>b'>link</a>", "<a href=\"x>y\" title='A&gt;B'>LINK</a>"),
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
        ("<p o'clock>x</p>y", "<p o'clock>X</p>Y"),
        ("<p a = b c='>' d=e/f>x", "<p a = b c='>' d=e/f>X"),
        ("<!-->x<!--->y<!-- a --!>z<!--!>w-->v", "<!-->X<!--->Y<!-- a --!>Z<!--!>w-->V"),
        ("x<!-- a <p>y", "X<!-- a <p>y"),
        ('<?php echo "a>b" ?>x<?= 1>2 ?>y', '<?php echo "a>b" ?>X<?= 1>2 ?>Y'),
        ("<?pi a>x<?xml version='1.0'?>y", "<?pi a>X<?xml version='1.0'?>Y"),
        ("<script>'</scripts>'</SCRIPT >x", "<script>'</scripts>'</SCRIPT >X"),
        ("a</ <script>b</script>c", "A</ <script>B</script>C"),
        ("<title>a <b> c</title>d", "<title>A <b> C</title>D"),
        ("<noscript><p>a</p></noscript>b", "<noscript><p>A</p></noscript>B"),
        (
            "10&nbsp;<b>km</b>&#32;&emsp;a&amp;&nbsp;<i>",
            "10\u00a0<b>KM</b> \u2003A&amp;\u00a0<i>",
        ),
        ("a</>b<>c > d", "A</>B&lt;&gt;C &gt; D"),
        ("&#0065; &#0; &#" + "9" * 5000 + ";", "A \ufffd \ufffd"),
        ("", ""),
    ],
)
def test_tags_stay_and_texts_change(document: str, expected: str) -> None:
    assert shouted(document) == expected


@pytest.mark.parametrize(
    "start",
    [
        '<p translate="no">', "<p TRANSLATE = No>", "<p a='b'translate='no'/ >",
        "<p class=notranslate>", "<p\nid=x\fclass='a notranslate\tb'>",
        "<p translate=no translate=yes>",
    ],
)  # fmt: skip
def test_an_element_is_not_translated_on_demand(start: str) -> None:
    assert shouted(f"{start}x <b>y</b></p>z") == f"{start}x <b>y</b></p>Z"


@pytest.mark.parametrize(
    "start",
    [
        '<p class="x notranslate-foo">', '<p data-x=" translate=no ">', "<p translate=nope>",
        "<p class=x-notranslate>", "<p data-translate=no>", "<p a= class=notranslate>",
        '<img translate="no">', "<p translate=yes translate=no>",
    ],
)  # fmt: skip
def test_other_attributes_do_not_keep_a_text(start: str) -> None:
    document = f"{start}x"
    assert shouted(document) == f"{start}X"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<ul><li translate=no>a<li>b</ul><p>c</p>", "<ul><li translate=no>a<li>B</ul><p>C</p>"),
        ("<p translate=no>a<p>b</p>", "<p translate=no>a<p>B</p>"),
        ("<p translate=no>a<hr>b", "<p translate=no>a<hr>B"),
        ("<p translate=no>a<b>b</b><br>c</div>d", "<p translate=no>a<b>b</b><br>c</div>d"),
        ("<div><p translate=no>a</div>b", "<div><p translate=no>a</div>B"),
        ("<div translate=no><p>a<p>b</div>c", "<div translate=no><p>a<p>b</div>C"),
        (
            "<ul><li translate=no>a<ul><li>b</ul>c<li>d",
            "<ul><li translate=no>a<ul><li>b</ul>c<li>D",
        ),
        ("<dl><dt translate=no>a<p>b<dd>c", "<dl><dt translate=no>a<p>b<dd>C"),
        ("<tr><td translate=no>a<td>b", "<tr><td translate=no>a<td>B"),
        ("<tr translate=no><td>a<tr><td>b", "<tr translate=no><td>a<tr><td>B"),
        ("<tbody translate=no><tr><td>a<tbody>b", "<tbody translate=no><tr><td>a<tbody>B"),
        ("<select><option translate=no>a<option>b", "<select><option translate=no>a<option>B"),
        ("<ruby>a<rp translate=no>(<rt>b", "<ruby>A<rp translate=no>(<rt>B"),
        ("<div><kbd>a</div>b", "<div><kbd>a</div>B"),
        ("<div><code>a</div>b", "<div><code>a</div>b"),  # browsers open the code again
        ("<svg><g>a</i>b</svg>c", "<svg><g>a</i>b</svg>C"),
        ("<svg><b>a</i>b</svg>c", "<svg><b>A</i>B</svg>C"),  # a `<b>` ends an SVG
        (
            "<template><template>a</template>b</template>c",
            "<template><template>a</template>b</template>C",
        ),
    ],
)
def test_an_end_tag_may_be_left_out(document: str, expected: str) -> None:
    assert shouted(document) == expected


def test_a_blank_translation_leaves_the_text() -> None:
    document = "<p>one</p> <i>two </i>"
    assert rebuilt(html_parts(document), [" ", "\0"]) == document


def test_elements_nest_deeply() -> None:
    document = 50_000 * "<div>" + "x" + 50_000 * "</div>"
    assert shouted(document) == document.replace("x", "X")


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


def in_place_of(text: str, translation: str) -> str:
    """Write a translation in place of each stretch of a text between two tags."""
    return re.sub("[^\U00100000-\U0010fffd]+", lambda _: translation, text)


@given(st.lists(PIECES, max_size=12), st.text("<>&\"'abc ", max_size=10))
def test_markup_in_a_translation_stays_text(pieces: list[str], translation: str) -> None:
    document = "".join(pieces)
    parts = html_parts(document)
    written = rebuilt(parts, [in_place_of(text, translation) for text in texts_of(parts)])
    assert Tags(written).found == Tags(document).found


@given(st.text("<>/!-&;'\"ab= \n", max_size=60))
def test_markup_of_any_kind_is_kept_to_the_letter(document: str) -> None:
    parts = html_parts(document)
    kept = [part.text for part in parts if not part.translated]
    position = 0
    for text in kept:
        position = document.index(text, position) + len(text)


def test_a_name_in_tags_is_one_word() -> None:
    page = '<p><a href="u">@<span>anna</span></a> a man, see #<span>dogs</span>.</p>'
    document = Document.of(page, html_parts)
    [sentence] = document.sentences
    assert "anna" not in sentence and "dogs" not in sentence
    assert document.with_translations([sentence]) == page
