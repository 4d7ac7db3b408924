"""The files that all pages of the program share, and the headers that keep pages safe."""

import hashlib
from importlib.resources import files
from pathlib import PurePath
from typing import NamedTuple

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
"""The content types by the ends of names; other files are not part of a page."""

_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
))  # fmt: skip
"""The content security policy: everything comes from this server, and no text becomes code."""

HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time, and 304 answers it
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
}
"""The headers of every page and its files."""


class PageFile(NamedTuple):
    """A file of a page: its content and its type."""

    content: bytes
    kind: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the file; by the tag, a browser that has it need not load it again."""
        return HEADERS | {"ETag": f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'}


def page_files(package: str) -> dict[str, PageFile]:
    """Return the files of a page by their names: those that all share, and those of a package."""
    return {
        each.name: PageFile(each.read_bytes(), kind)
        for folder in ("crosshead.system", package)
        for each in files(folder).joinpath("page").iterdir()
        if (kind := _TYPES.get(PurePath(each.name).suffix))
    }
