"""A translated HTML document has the elements of its source, in a browser and for a parser.

The fragments are drawn with a seed from pieces that parsers disagree about.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import turbohtml

from crosshead.text.documents.document import rebuilt, texts_of
from crosshead.text.documents.html import html_parts
from crosshead.text.marks import Marked
from crosshead.text.placing import WordLinks

PIECES = [
    "</ <script>", "</ ", "<!", "<?", "</>", "<>", "<", ">", "<a/b=c>", "</a/b=c>", "\0", "\r",
    "\r\n", "\n", " ", "\t", "\xa0", "x", "one two", "a > b", "1 < 2", "=", "-", "]]>", "]", "&amp",
    "&lt;b&gt;", "&ltx", "&notit;", "&#0;", "&#32;", "&#x80", "&#99999999999;", "&nbsp;", "&", "<a",
    "<b ", "<b c", "<b c=", "<b c='", '<b c="', "<b c=d", "</b", '"', "'", "<a href='x>y'>",
    '<a title="</a>">', "<p o'clock>", "<p a = b c='>' d=e/f>", "<img alt='<b>'>", "<br/>", "</br>",
    "<p>", "</p>", "<div>", "</div>", "<b>", "</b>", "<i id=1>", "<i id=2>", "</i>", "<a>", "</a>",
    "<nobr>", "<font color=red>", "</font>", "<li>", "<ul>", "</ul>", "<dt>", "<dd>", "<h1>",
    "</h2>", "<button>", "</button>", "<form>", "</form>", "<object>", "</object>", "<select>",
    "<option>", "</select>", "<input>", "<table>", "</table>", "<tr>", "</tr>", "<td>", "</td>",
    "<tbody>", "<caption>", "<col>", "<colgroup>", "<html lang=x>", "<head>", "</head>",
    "<body class=y>", "</body>", "<frameset>", "<frame>", "</frameset>", "<!doctype html>",
    "<!DOCTYPE a 'b>c'>", "<title>", "</title>", "<textarea>", "</textarea>", "<script>",
    "</script>", "<style>", "</style>", "<xmp>", "</xmp>", "<iframe>", "</iframe>", "<noembed>",
    "</noembed>", "<noframes>", "</noframes>", "<noscript>", "</noscript>", "<plaintext>",
    "<template>", "</template>", "<pre>", "</pre>", "<listing>", "<svg>", "</svg>", "<g>", "<desc>",
    "<foreignObject>", "</foreignObject>", "<svg><style>", "<svg><title>", "<math>", "</math>",
    "<mi>", "<mtext>", "<annotation-xml encoding='text/html'>", "<mglyph>", "<![CDATA[",
    "<![CDATA[x>y<b>]]>", "<!-->", "<!--->", "<!--", "-->", "--!>", "<!-- a <b> -->",
    "<!-- <!-- -->", "<?php echo 'a>b' ?>", "<?xml a='>'?>", "<?pi a>", "<p translate=no>",
    "<ruby>", "<rt>", "<hr>", "<code>", "</code>", "<image>", "<script><!--<script>",
    "</script x='", "</title x='", "<base>", "<link>", "<meta>",
]  # fmt: skip
FEW = 400
MANY = 5_000


def unchanged(text: str) -> str:
    return text


def hostile(text: str) -> str:
    return f"""\"><script>'--></title></b x=&lt;{text.upper()}<!-- <a b='c" d>&amp;<"""


def bare(text: str) -> str:
    return """ y=z"''"=w """


TRANSLATIONS: list[Callable[[str], str]] = [unchanged, hostile, bare, lambda text: " \0\n"]

ELEMENTS = """(pairs) => {
  const listed = (node) => [...node.childNodes].filter((each) => each.nodeType === 1).map(
    (each) => [each.namespaceURI, each.localName,
               [...each.attributes].map((found) => [
                 found.name, /^(alt|title|placeholder|aria-label|content)$/.test(found.name)
                 ? "" : found.value]),
               listed(each.content || each)]);
  const inside = (name) => (html) => {
    const element = document.createElement(name);
    element.innerHTML = html;
    return element.content || element;
  };
  const parser = new DOMParser();
  const ways = [(html) => parser.parseFromString(html, "text/html"), inside("div"),
                inside("template")];
  const same = ([before, after]) => ways.every(
    (way) => JSON.stringify(listed(way(before))) === JSON.stringify(listed(way(after))));
  return pairs.filter((pair) => !same(pair));
}"""
"""The pairs of documents whose elements differ: names, nesting and attributes, apart from the
values that are translated.

The page may run scripts, so a `<noscript>` in its `<div>` is raw; in the other ways it is not.
"""


def fragments(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(PIECES, k=draw.randint(1, 12))) for _ in range(count)]


def pairs(documents: list[str]) -> Iterator[tuple[str, str]]:
    """Each document, and its translations."""
    for document in documents:
        parts = html_parts(document)
        for translate in TRANSLATIONS:
            yield document, rebuilt(parts, [in_place(text, translate) for text in texts_of(parts)])


def in_place(text: str, translate: Callable[[str], str]) -> str:
    """Translate each stretch of a text between two tags."""
    return re.sub("[^\U00100000-\U0010fffd]+", lambda match: translate(match[0]), text)


def test_most_fragments_have_texts() -> None:
    documents = fragments(FEW)
    assert sum(bool(texts_of(html_parts(document))) for document in documents) > FEW / 3


@pytest.mark.parametrize("scripting", [False, True])
def test_a_parser_finds_the_elements_of_the_source(scripting: bool) -> None:
    def fixed(node: turbohtml.Element) -> dict[str, object]:
        read = ("alt", "title", "placeholder", "aria-label", "content")
        return {name: "" if name in read else value for name, value in node.attrs.items()}

    def elements(document: str) -> list[object]:
        nodes = turbohtml.parse(document, scripting=scripting).descendants
        found = [node for node in nodes if isinstance(node, turbohtml.Element)]
        return [
            (node.namespace, node.tag, fixed(node), len(list(node.ancestors))) for node in found
        ]

    for before, after in pairs(fragments(FEW)):
        assert elements(after) == elements(before), (before, after)


WORDS = re.compile(r"\w+")


def moved(text: str, draw: np.random.Generator) -> tuple[str, list[str]]:
    """Write other words in place of a text, with its tags around any of them; and the words."""
    marked = Marked.of(text)
    words = [f"word{number}" for number in draw.integers(10**8, 10**9, size=draw.integers(1, 6))]
    if not marked.text:
        return text, []
    output = " ".join(words)
    units = [
        np.array([m.span() for m in WORDS.finditer(each)], int).reshape(-1, 2)
        for each in (marked.text, output)
    ]
    weights = draw.random((len(units[1]), len(units[0])))
    return marked.projected(output, WordLinks(*units, weights)), words


@pytest.mark.parametrize("scripting", [False, True])
def test_words_that_move_between_tags_are_still_read(scripting: bool) -> None:
    draw = np.random.default_rng(1)
    for document in fragments(FEW):
        parts = html_parts(document)
        found = [moved(text, draw) for text in texts_of(parts)]
        after = rebuilt(parts, [text for text, _ in found])
        tree = turbohtml.parse(after, scripting=scripting)
        values = [str(value) for node in tree.select("*") for value in node.attrs.values()]
        read = " ".join([tree.text, *values])
        for word in [word for _, words in found for word in words]:
            assert read.count(word) == 1, (document, after, word)


@pytest.fixture(scope="module")
def differing() -> Iterator[Callable[[list[tuple[str, str]]], list[tuple[str, str]]]]:
    """A function that returns the pairs whose elements differ in Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if path is None:
        pytest.skip("no Chromium")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=path, args=arguments)
        page = browser.new_page(offline=True)
        yield lambda found: page.evaluate(ELEMENTS, [list(pair) for pair in found])
        browser.close()


def test_chromium_finds_the_elements_of_the_source(
    differing: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
) -> None:
    assert differing(list(pairs(fragments(FEW)))) == []


@pytest.mark.slow
def test_chromium_finds_the_elements_of_many_sources(
    differing: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
) -> None:
    assert differing(list(pairs(fragments(MANY, seed=2)))) == []


def test_chromium_tells_elements_apart(
    differing: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
) -> None:
    alive = ("</ <script>", "&lt;/ <script>")
    changed = [alive, ("<p>", "<p id=a>"), ("<b><i></i></b>", "<b></b><i></i>"), ("a", "<br>")]
    assert differing([("a", "b"), *changed]) == [list(pair) for pair in changed]
