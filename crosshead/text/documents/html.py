"""HTML: every tag stays where it was, and the texts between tags are translated.

turbohtml (MIT, in C, fuzzed) parses as the standard says and in linear time. selectolax and
justhtml take quadratic time on some pages, tinyhtml5 knows no `<template>`, and html5lib has had no
release since 2020. Parsers do not tell where each text of a tree stands in the source. So every
piece of the source that may be a text gets a mark, and the pieces whose marks the parser finds in
texts are translated. All else stays to the letter: markup, scripts, styles, code, elements with
`translate="no"`, and programs such as PHP. A translation cannot open an element: it is escaped, and
it stands where a browser reads text.
"""

import operator
import re
import secrets

import turbohtml

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

_EDGES = {1: re.compile(r"\s+|&#?\w+;"), -1: re.compile(r"\s+|;\w+#?&")}
"""White space and references from the beginning, and backwards from the end."""

_NO_TEXT = {0: None, 0xFFFD: None}  # browsers ignore NUL; its replacement may count as space


def html_parts(document: str) -> list[TextPart]:
    """Return the parts of an HTML document or fragment."""
    pieces = _MARKUP.split(document)  # markup is at the odd places
    texts = _texts(pieces)
    return [
        _text(piece) if text else TextPart(piece)
        for piece, text in zip(pieces, texts, strict=True)
        if piece
    ]


def _texts(pieces: list[str]) -> list[bool]:
    """Return for each piece if it is a text to translate, in every way to read the HTML."""
    key = secrets.token_hex(8)  # no document can foresee it
    source = "".join(
        piece if place % 2 or _blank(turbohtml.unescape(piece)) else f"{key}{place}.{piece}"
        for place, piece in enumerate(pieces)
    )
    mark = re.compile(rf"{key}(\d+)\.")
    texts = [True] * len(pieces)
    for read in (_document, _document_with_scripts, _fragment):
        found = [False] * len(pieces)
        for match in mark.finditer(read(source).remove(_KEPT).text):
            found[int(match[1])] = True
        texts = list(map(operator.and_, texts, found))
    return texts


def _document(source: str) -> turbohtml.Node:
    return turbohtml.parse(source, positions=False)


def _document_with_scripts(source: str) -> turbohtml.Node:
    return turbohtml.parse(source, positions=False, scripting=True)  # `<noscript>` is raw


def _fragment(source: str) -> turbohtml.Node:
    return turbohtml.parse_fragment(source, "template", positions=False)  # rows need no table


def _text(raw: str) -> TextPart:
    begin, end = _space(raw, 1), len(raw) - _space(raw, -1)
    lead, middle, trail = raw[:begin], raw[begin:end], raw[end:]

    def write(text: str) -> str:
        # Browsers place elements by where text stands, so a blank translation does not replace it.
        return raw if _blank(text) else lead + turbohtml.escape(text.strip(), quote=False) + trail

    return TextPart(turbohtml.unescape(middle), translated=True, write=write)


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
