"""HTML: every tag stays where it was, and the texts between tags are translated.

A text is unescaped for the model and escaped again, so that `&lt;` stays text. Scripts, styles,
code and elements with `translate="no"` stay as they are. An unfinished tag at the end stays as it
is, with everything after it. Tags and comments end where the HTML standard says. The time grows in
proportion to the document: the patterns never go back.
"""

import html
import re
from collections import Counter

from crosshead.data.documents.parts import TextPart

_SPACE = r" \t\n\f\r"
_NAME = re.compile(rf"</?([a-zA-Z][^{_SPACE}/>]*+)")
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+(=?[^{_SPACE}/>=]*+)"  # a quote may be a part of a name: <p o'clock>
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(\"[^\"]*+\"?|'[^']*+'?|[^{_SPACE}>]*+))?+"
)
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_PROGRAM = re.compile(rf"<\?(?:php(?![a-z])|=|[{_SPACE}])", re.IGNORECASE)
_LONG_NUMBER = re.compile(r"&#([0-9]{8,})")

_KEPT = frozenset((
    "code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "var",
))  # fmt: skip
_RAW = {
    name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea")
}
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
))  # fmt: skip

_SECTIONS = frozenset(("tbody", "tfoot", "thead"))
_ROWS = _SECTIONS | {"tr"}
_CELLS = _ROWS | {"td", "th"}
_TERMS = frozenset(("dd", "dt"))
_NOTES = frozenset(("rp", "rt"))
_CLOSED_BY = {
    "p": _CELLS | _TERMS | {
        "address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset",
        "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
        "hgroup", "hr", "li", "main", "menu", "nav", "ol", "p", "pre", "search", "section", "table",
        "ul",
    },
    "li": {"li"},
    **dict.fromkeys(_TERMS, _TERMS),
    **dict.fromkeys(_NOTES, _NOTES),
    "option": {"optgroup", "option"},
    "optgroup": {"optgroup"},
    **dict.fromkeys(("td", "th"), _CELLS),
    "tr": _ROWS,
    **dict.fromkeys(_SECTIONS, _SECTIONS),
    **dict.fromkeys(("caption", "colgroup"), _ROWS | {"colgroup"}),
    "head": {"body"},
}  # fmt: skip
"""The start tags that close an element without its end tag, which is optional."""


class _OpenElements:
    """The elements around a position."""

    def __init__(self) -> None:
        self._stack: list[tuple[str, bool]] = []
        self._count: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The name of the innermost element."""
        return self._stack[-1][0] if self._stack else ""

    @property
    def kept(self) -> bool:
        """True if the innermost element is not translated."""
        return bool(self._stack) and self._stack[-1][1]

    def open(self, name: str, kept: bool) -> None:
        self._stack.append((name, kept or self.kept))
        self._count[name] += 1

    def close(self, name: str) -> None:
        """Close the innermost element of a name, and the elements inside it."""
        if not self._count[name]:
            return
        closed = ""
        while closed != name:
            closed, _ = self._stack.pop()
            self._count[closed] -= 1


def html_parts(document: str) -> list[TextPart]:
    """Return the parts of an HTML document or fragment.

    Args:
        document: The HTML.
    """
    parts: list[TextPart] = []
    elements = _OpenElements()
    position = 0
    while position < len(document):
        start = _next_markup(document, position, elements.name)
        if start > position:
            parts.append(_text(document[position:start], elements.kept))
        if start < len(document):
            position = _markup_end(document, start, elements)
            parts.append(TextPart(document[start:position]))
        else:
            position = start
    return parts


def _text(raw: str, kept: bool) -> TextPart:
    if kept or not raw.strip():
        return TextPart(raw)
    lead = raw[: len(raw) - len(raw.lstrip())]
    trail = raw[len(raw.rstrip()) :]

    def write(text: str) -> str:
        return lead + html.escape(text.strip(), quote=False) + trail

    return TextPart(_unescaped(raw.strip()), translated=True, write=write)


def _unescaped(text: str) -> str:
    # Python refuses to read numbers of thousands of digits; eight are already no character.
    short = _LONG_NUMBER.sub(lambda match: "&#" + (match[1].lstrip("0")[:8] or "0"), text)
    return html.unescape(short)


def _next_markup(document: str, position: int, element: str) -> int:
    """Return where the next markup begins, or the end of the document."""
    if element in _RAW:  # only its own end tag ends it
        found = _RAW[element].search(document, position)
        return found.start() if found else len(document)
    while (start := document.find("<", position)) >= 0:
        if document.startswith(("!", "?"), start + 1) or _NAME.match(document, start):
            return start
        position = start + 1  # a single `<` is text
    return len(document)


def _markup_end(document: str, start: int, elements: _OpenElements) -> int:
    """Return where the markup at `start` ends. A tag opens or closes elements."""
    name = _NAME.match(document, start)
    if name is not None:
        return _tag_end(document, name, elements)
    if document.startswith("<!--", start):
        comment = _COMMENT.match(document, start)
        return comment.end() if comment else len(document)
    closing = ">"
    if document.startswith("<![CDATA[", start):
        closing = "]]>"
    elif _PROGRAM.match(document, start):
        closing = "?>"
    end = document.find(closing, start)
    return len(document) if end < 0 else end + len(closing)


def _tag_end(document: str, tag: re.Match[str], elements: _OpenElements) -> int:
    attributes: dict[str, str] = {}
    position = tag.end()
    # Every part of the pattern is optional, so it always matches; without a name, the tag ends.
    while (found := _ATTRIBUTE.match(document, position)) and found[1]:
        attributes.setdefault(found[1].lower(), (found[2] or "").strip("\"'").lower())
        position = found.end()
    slashed = found is not None and found.group().endswith("/")
    end = min(len(document), (found.end() if found else position) + 1)
    name = tag[1].lower()
    if tag.group().startswith("</"):
        elements.close(name)
        return end
    while name in _CLOSED_BY.get(elements.name, ()):
        elements.close(elements.name)
    if name not in _VOID and not slashed:
        no = attributes.get("translate") == "no"
        no = no or "notranslate" in attributes.get("class", "").split()
        elements.open(name, no or name in _KEPT)
    return end
