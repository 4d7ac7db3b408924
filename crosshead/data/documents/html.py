"""HTML: every tag stays where it was, and the texts between tags are translated.

A text is unescaped for the model and escaped again, so that `&lt;` stays text. Scripts, styles,
code and elements with `translate="no"` stay as they are. An unfinished tag at the end stays as it
is, with everything after it.
"""

import html
import re

from crosshead.data.documents.parts import TextPart

_NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
_STOP = re.compile("[>\"']")
_KEPT = frozenset((
    "code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "var",
))  # fmt: skip
_RAW = frozenset(("script", "style", "textarea", "template"))
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
))  # fmt: skip
_NO = re.compile(
    r"""\s(?:translate\s*=\s*["']?no\b|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b))""",
    re.IGNORECASE,
)


def html_parts(document: str) -> list[TextPart]:
    """Return the parts of an HTML document or fragment.

    Args:
        document: The HTML.
    """
    parts: list[TextPart] = []
    kept: list[str] = []  # the open elements from the first one that is not translated
    position = 0
    while position < len(document):
        start, end = _markup(document, position, kept)
        if start > position:
            parts.append(_text(document[position:start], bool(kept)))
        if end > start:
            markup = document[start:end]
            parts.append(TextPart(markup))
            _follow(markup, kept)
        position = end
    return parts


def _text(raw: str, kept: bool) -> TextPart:
    if kept or not raw.strip():
        return TextPart(raw)
    lead = raw[: len(raw) - len(raw.lstrip())]
    trail = raw[len(raw.rstrip()) :]

    def write(text: str) -> str:
        return lead + html.escape(text.strip(), quote=False) + trail

    return TextPart(html.unescape(raw.strip()), translated=True, write=write)


def _markup(document: str, position: int, kept: list[str]) -> tuple[int, int]:
    """Return where the next markup begins and ends; both are the end if there is none."""
    length = len(document)
    if kept and kept[-1] in _RAW:  # only its own end tag ends it
        found = re.compile(rf"</{kept[-1]}\b", re.IGNORECASE).search(document, position)
        return (found.start(), _tag_end(document, found.start())) if found else (length, length)
    while True:
        start = document.find("<", position)
        if start < 0:
            return length, length
        following = document[start + 1 : start + 2]
        if document.startswith("<!--", start):
            end = document.find("-->", start + 4)
            return start, length if end < 0 else end + 3
        if document.startswith("<![CDATA[", start):
            end = document.find("]]>", start)
            return start, length if end < 0 else end + 3
        if following in ("!", "?"):
            end = document.find(">", start)
            return start, length if end < 0 else end + 1
        if _NAME.match(document, start):
            return start, _tag_end(document, start)
        # A single `<` is text.
        position = start + 1


def _tag_end(document: str, start: int) -> int:
    """Return the position behind a tag; `>` inside quotes does not end it."""
    position = start
    while True:
        found = _STOP.search(document, position)
        if found is None:
            return len(document)
        if found.group() == ">":
            return found.end()
        closing = document.find(found.group(), found.end())
        if closing < 0:
            return len(document)
        position = closing + 1


def _follow(markup: str, kept: list[str]) -> None:
    """Keep account of the open elements inside one that is not translated."""
    match = _NAME.match(markup)
    if match is None:
        return
    name = match[1].lower()
    if markup.startswith("</"):
        if name in kept:
            while kept.pop() != name:
                pass
    elif name in _VOID or markup.endswith("/>"):
        return
    elif kept or name in _KEPT or _NO.search(markup):
        kept.append(name)
