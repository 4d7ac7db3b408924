"""The formats of documents, and the ends of the names of their files."""

from importlib import import_module

from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.text.documents.document import Parser

FORMATS = {
    "text": "plain.plain_parts",
    "markdown": "markdown.markdown_parts",
    "html": "html.html_parts",
    "srt": "subtitles.subtitle_parts",
}
"""The parser of each format, which is imported at its first use."""

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
    module, _, function = FORMATS[name].partition(".")
    parser: Parser = getattr(import_module(f"crosshead.text.documents.{module}"), function)
    return parser
