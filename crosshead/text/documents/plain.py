"""Plain text: its lines, or a text whose line breaks mean nothing. Tags in it are markup."""

import re

from crosshead.text.documents.block import Block
from crosshead.text.documents.document import TextPart
from crosshead.text.marks import tags_of


def plain_parts(text: str) -> list[TextPart]:
    """Return the parts of a plain text: its lines, and the line breaks between them."""
    pieces = re.split(r"(\r\n|\r|\n)", text)
    return [
        part
        for piece in pieces
        if piece
        for part in (_line_parts(piece) if piece.strip() else [TextPart(piece)])
    ]


def flowing_parts(text: str) -> list[TextPart]:
    """Return the parts of a plain text whose line breaks mean nothing: they become spaces."""
    body = text.strip()
    if not body:
        return [TextPart(text)] if text else []
    start = text.index(body)
    flowing = re.sub(r"\s++", _without_breaks, body)
    ends = TextPart(text[:start]), TextPart(text[start + len(body) :])
    return [part for part in (ends[0], *_line_parts(flowing), ends[1]) if part.text]


def _without_breaks(space: re.Match[str]) -> str:
    return " " if "\n" in space.group() or "\r" in space.group() else space.group()


def _line_parts(line: str) -> list[TextPart]:
    """Return the parts of a line, in which tags are found before it is split into sentences."""
    tags = tags_of(line)
    if not tags:
        return [TextPart(line, translated=True)]
    block, begin = Block(), 0
    for start, end, kind, name in tags:
        block.add(line[begin:start])
        block.mark([TextPart(line[start:end])], kind, name)
        begin = end
    block.add(line[begin:])
    return block.parts()
