"""HTML: a block's text is translated whole, with the tags inside it, and other markup stays.

turbohtml (MIT, in C, fuzzed) parses as the standard says and in linear time. selectolax and
justhtml take quadratic time on some pages, tinyhtml5 knows no `<template>`, and html5lib has had no
release since 2020. Parsers do not tell where each text of a tree stands in the source. So every
piece of the source that may be a text gets a mark, and the pieces whose marks the parser finds in
texts are translated. All else stays to the letter: markup, scripts, styles, code, elements with
`translate="no"`, and programs such as PHP. A translation cannot open an element: it is escaped, and
it stands where a browser reads text. The values of the attributes that people read are translated
too.
"""

import itertools
import re
import secrets

import turbohtml

from crosshead.text.documents.block import Block
from crosshead.text.documents.document import TextPart

_SPACE = r" \t\n\f\r"
_ATTRIBUTE = (
    rf"[{_SPACE}/]*+=?[^{_SPACE}/>=]++"  # a quote may be a part of a name: <p o'clock>
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:\"[^\"]*+\"?|'[^']*+'?|[^{_SPACE}>]*+))?+"
)
_MARKUP = re.compile(
    rf"(<\?(?:php(?![a-z])|=|[{_SPACE}])(?:.*?\?>|.*)|<!--(?:-?>|.*?--!?>|.*)"
    rf"|<(?:script(?=[{_SPACE}/>])(?:.*?</script[^>]*>?|.*)|style(?=[{_SPACE}/>])"
    r"(?:.*?</style[^>]*>?|.*))"
    rf"|</?[a-zA-Z][^{_SPACE}/>]*+(?:{_ATTRIBUTE})*+[^>]*>?|<[!?/][^>]*>?)",
    re.DOTALL | re.IGNORECASE,
)
"""The beginnings of markup and its ends. The parser decides if the text after them is one."""

_KEPT = (
    "code, iframe, kbd, math, noembed, noframes, plaintext, pre, samp, script, style, svg,"
    "template, textarea, var, xmp, [translate='no' i], [class~='notranslate' i]"
)

_NAME = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")

_LANGUAGE = re.compile(r"\slang\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)

_VALUE = re.compile(
    r"([\s\"'/](?:alt|title|placeholder|aria-label|content)\s*=\s*[\"'])"
    r"(?P<value>(?:(?<=\")[^\"]*(?=\"))|(?:(?<=')[^']*(?=')))",
    re.IGNORECASE,
)
"""Values of attributes that people may read. The parser decides which they read."""

_ATTRIBUTES = {
    "[alt]": "alt",
    "[title]": "title",
    "[placeholder]": "placeholder",
    "[aria-label]": "aria-label",
    "meta[name='description' i][content]": "content",
}
"""Selectors of elements with an attribute that people read."""

_VOID = frozenset(("embed", "img", "input", "wbr"))

_BLOCKS = frozenset((
    "address", "article", "aside", "base", "blockquote", "body", "br", "button", "canvas",
    "caption", "center", "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3",
    "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "iframe", "legend", "li",
    "link", "main", "menu", "meta", "nav", "noframes", "noscript", "ol", "optgroup", "option",
    "p", "plaintext", "pre", "script", "search", "section", "select", "source", "style",
    "summary", "table", "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "title",
    "tr", "track", "ul", "xmp",
))  # fmt: skip
"""The elements between which no sentence goes on. All others stand inside a sentence."""

_DRAWN = ("math", "svg")
"""Elements that have no text for sentences, and whose parts have names of their own."""

_EDGES = {1: re.compile(r"\s+|&#?\w+;"), -1: re.compile(r"\s+|;\w+#?&")}
"""White space and references from the beginning, and backwards from the end."""

_NO_TEXT = {0: None, 0xFFFD: None}  # browsers ignore NUL; its replacement may count as space


def html_parts(document: str) -> list[TextPart]:
    """Return the parts of an HTML document or fragment."""
    pieces = _MARKUP.split(document)  # markup is at the odd places
    read = _read(pieces)
    parts: list[TextPart] = []
    block = Block(_written)
    drawn = 0
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            _add(block, piece, str(place) in read)
            continue
        markup, tag = _markup(piece, place, read), _NAME.match(piece)
        name = tag[2].lower() if tag else ""
        if name == "html" and (found := _LANGUAGE.search(piece)):
            begin, end = found.span(1)
            markup = [
                TextPart(piece[:begin]), TextPart(found[1], is_language=True),
                TextPart(piece[end:]),
            ]  # fmt: skip
        if name in _DRAWN:
            drawn = max(0, drawn - 1) if tag and tag[1] else drawn + (not piece.endswith("/>"))
        if not drawn and (name in _BLOCKS or not tag) and not piece.startswith(("<!--", "<?")):
            parts += block.parts() + markup
            block = Block(_written)
        elif not tag or name in _VOID or piece.endswith("/>"):
            block.mark(markup)
        else:
            block.mark(markup, "close" if tag[1] else "open", name)
    return parts + block.parts()


def _add(block: Block, piece: str, is_text: bool) -> None:
    """Add what stands between two tags to a block."""
    if not is_text and not _blank(turbohtml.unescape(piece)):
        block.mark([TextPart(piece)], "word")
        return
    begin, end = _space(piece, 1), len(piece) - _space(piece, -1)
    if end < begin:
        begin, end = len(piece), len(piece)
    for raw in (piece[:begin], piece[begin:end], piece[end:]):
        block.add(raw, turbohtml.unescape(raw))


def _markup(raw: str, place: int, read: frozenset[str]) -> list[TextPart]:
    """Return a tag as parts: the values of attributes that people read are texts."""
    parts, begin = [], 0
    for number, match in enumerate(_VALUE.finditer(raw)):
        if f"{place}:{number}" in read:
            parts.append(TextPart(raw[begin : match.start("value")]))
            parts.append(TextPart(turbohtml.unescape(match["value"]), True, _quoted))
            begin = match.end("value")
    return [*parts, TextPart(raw[begin:])]


def _written(text: str) -> str:
    return turbohtml.escape(text, quote=False)


def _quoted(text: str) -> str:
    return turbohtml.escape(text.strip()).replace("'", "&#39;")


def _read(pieces: list[str]) -> frozenset[str]:
    """Return the places of texts that are read by people, in every way to read the HTML.

    A place is the number of a piece, or for an attribute the numbers of its piece and in it.
    """
    key = secrets.token_hex(8)  # no document can foresee it

    def marked(piece: str, place: int) -> str:
        if place % 2 == 0:
            return piece if _blank(turbohtml.unescape(piece)) else f"{key}{place}.{piece}"
        numbers = itertools.count()
        return _VALUE.sub(
            lambda match: f"{match[1]}{key}{place}:{next(numbers)}.{match['value']}", piece
        )

    source = "".join(marked(piece, place) for place, piece in enumerate(pieces))
    mark = re.compile(rf"{key}(\d+(?::\d+)?)\.")
    found = []
    for read in (_document, _document_with_scripts, _fragment):
        tree = read(source).remove(_KEPT)
        places = set(mark.findall(tree.text))
        for selector, name in _ATTRIBUTES.items():
            for node in tree.select(selector):
                start = mark.match(str(node.attrs[name]))
                if start and any(map(str.isalpha, str(node.attrs[name])[start.end() :])):
                    places.add(start[1])
        found.append(places)
    return frozenset.intersection(*map(frozenset, found))


def _document(source: str) -> turbohtml.Node:
    return turbohtml.parse(source, positions=False)


def _document_with_scripts(source: str) -> turbohtml.Node:
    return turbohtml.parse(source, positions=False, scripting=True)  # `<noscript>` is raw


def _fragment(source: str) -> turbohtml.Node:
    return turbohtml.parse_fragment(source, "template", positions=False)  # rows need no table


def _space(raw: str, step: int) -> int:
    """Return the length of the white space at an edge, which may be written as references."""
    raw, length = raw[::step], 0
    while found := _EDGES[step].match(raw, length):
        if not turbohtml.unescape(found[0][::step]).isspace():
            break
        length = found.end()
    return length


def _blank(text: str) -> bool:
    return not text.translate(_NO_TEXT).strip()
