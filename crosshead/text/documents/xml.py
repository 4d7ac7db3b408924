"""XML in texts, as clients of DeepL send it: tags stand inside a sentence, and they all stay."""

import re
from collections.abc import Collection
from html import unescape
from xml.sax.saxutils import escape

from crosshead.text.documents.block import Block
from crosshead.text.documents.document import TextPart

_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![A-Z][^>]*+>"
    r"|<(?P<end>/?)(?P<name>[^\W\d][\w.:-]*+)(?:\s(?:[^<>\"'/]|/(?!>)|\"[^\"]*+\"|'[^']*+')*+)?+"
    r"(?P<empty>/?)>",
    re.DOTALL,
)


def xml_parts(
    document: str, splitting: Collection[str] = (), ignored: Collection[str] = ()
) -> list[TextPart]:
    """Return the parts of a text with tags."""
    parts: list[TextPart] = []
    block = Block(escape)
    begin, skipped = 0, list[str]()
    kept_from = 0
    for match in _MARKUP.finditer(document):
        name = match["name"]
        opens, closes = name and not match["end"] and not match["empty"], bool(match["end"])
        if skipped:
            if name in ignored:
                skipped += [name] if opens else []
                if closes and skipped[-1] == name:
                    skipped.pop()
            if not skipped:
                block.mark([TextPart(document[kept_from : match.end()])], "word")
                begin = match.end()
            continue
        block.add(document[begin : match.start()], unescape(document[begin : match.start()]))
        begin = match.end()
        if opens and name in ignored:
            skipped, kept_from = [name], match.start()
            continue
        markup = [TextPart(match.group())]
        if name in splitting:
            parts += [*block.parts(), *markup]
            block = Block(escape)
        elif opens or closes:
            block.mark(markup, "close" if closes else "open", name)
        else:
            block.mark(markup)
    if skipped:  # it never ends
        block.mark([TextPart(document[kept_from:])], "word")
    else:
        block.add(document[begin:], unescape(document[begin:]))
    return parts + block.parts()
