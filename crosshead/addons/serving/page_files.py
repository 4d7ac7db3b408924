"""The web page: its files, their types, and the headers that keep it to itself."""

import hashlib
from importlib.resources import files
from pathlib import PurePath

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The content types by the ends of names; other files are not part of the page."""

_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
))  # fmt: skip
"""The content security policy: everything comes from this server, and no text becomes code."""

PAGE_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time, and 304 answers it
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
}
"""The headers of every page and its files."""


def page_routes() -> list[Route]:
    """Return the routes of the page: `/` and `/page/NAME` for each of its files."""
    routes = []
    for file in sorted(files("crosshead.addons.serving").joinpath("page").iterdir(), key=str):
        kind = _TYPES.get(PurePath(file.name).suffix)
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            routes.append(_route(path, file.read_bytes(), kind))
    return routes


def _route(path: str, content: bytes, kind: str) -> Route:
    """Return the route of one file."""
    headers = PAGE_HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}

    async def answer(request: Request) -> Response:
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return Route(path, answer, methods=["GET"])
