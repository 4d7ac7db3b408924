"""The formats of documents, by the ends of their names."""

from collections.abc import Callable

from crosshead.data.documents.html import html_parts
from crosshead.data.documents.markdown import markdown_parts
from crosshead.data.documents.parts import TextPart, plain_parts
from crosshead.data.documents.subtitles import subtitle_parts

Parser = Callable[[str], list[TextPart]]
"""A function of a document that returns its parts."""

FORMATS: dict[str, Parser] = {
    ".txt": plain_parts,
    ".md": markdown_parts,
    ".html": html_parts,
    ".srt": subtitle_parts,
}
"""The parser of each format."""
