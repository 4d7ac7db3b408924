"""The formats of documents, and the ends of the names of their files."""

from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.text.documents.document import Parser
from crosshead.text.documents.html import html_parts
from crosshead.text.documents.markdown import markdown_parts
from crosshead.text.documents.plain import plain_parts
from crosshead.text.documents.subtitles import subtitle_parts

FORMATS: dict[str, Parser] = {
    "text": plain_parts,
    "markdown": markdown_parts,
    "html": html_parts,
    "srt": subtitle_parts,
}
"""The parser of each format."""

ENDS = {
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".srt": "srt",
    ".vtt": "srt",
}
"""The format of a file by the end of its name."""


def parser_of(name: str) -> Parser:
    """Return the parser of a format."""
    if name not in FORMATS:
        raise ConfigError(f"unknown format {name!r}; {nearest(name, list(FORMATS))}")
    return FORMATS[name]
