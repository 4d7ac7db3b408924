"""The pages, their files and descriptions, and the operations that watch the server."""

import hashlib
from importlib.resources import files
from pathlib import PurePath
from string import Template

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from crosshead.addons.serving.description import docs_body, openapi
from crosshead.addons.serving.dialect import Dialect, Operation
from crosshead.addons.serving.requests import RequestError, State, client_of
from crosshead.addons.serving.scheduler import Scheduler

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
"""The content types by the ends of names; other files are not part of the page."""

_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
))  # fmt: skip
"""The content security policy: everything comes from this server, and no text becomes code."""

_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time, and 304 answers it
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
}
"""The headers of every page and its files."""


class Pages(Dialect):
    """The handlers for people, and for the programs that watch the server."""

    name = "Operation and pages"
    text = "Paths for people, and for the programs that watch the server."

    def __init__(self, state: State, scheduler: Scheduler, others: list[Dialect]) -> None:
        super().__init__(state)
        self.scheduler, self.dialects = scheduler, [*others, self]
        folder = files("crosshead.addons.serving").joinpath("page")
        self._files = {
            "/" if each.name == "index.html" else f"/page/{each.name}": (each.read_bytes(), kind)
            for each in folder.iterdir()
            if (kind := _TYPES.get(PurePath(each.name).suffix))
        }
        self._docs = Template(self._files.pop("/page/docs.html")[0].decode())

    def operations(self) -> list[Operation]:
        """Return the operations."""
        html, text = "text/html", "text/plain"
        return [
            Operation("GET", "/", self.page, "The page.", media=html, more=(304,)),
            Operation(
                "GET", "/page/{name}", self.page, "The file.", media="*/*", more=(304, 404),
                example=False,
            ),
            Operation("GET", "/docs", self.docs, "The page.", media=html),
            Operation("GET", "/spec", self.spec, "The description."),
            Operation("GET", "/v1/openapi.json", self.spec, "The same description."),
            Operation("GET", "/livez", self.livez, "`ok`.", media=text),
            Operation("GET", "/readyz", self.readyz, "It can.", media=text, ready=True),
            Operation("GET", "/metrics", self.metrics, "The counts.", media=text, key=True),
        ]  # fmt: skip

    async def page(self, request: Request) -> Response:
        """Return the page that translates, or one of its files."""
        found = self._files.get(request.scope["path"])
        if found is None:
            raise RequestError(404, "there is no such file")
        content, kind = found
        headers = _HEADERS | {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    async def docs(self, request: Request) -> Response:
        """Show this description."""
        codes = {}
        if self.state.service is not None:
            pair = next(iter(self.state.service.directory.pairs))
            codes = dict(zip(("en", "de"), pair, strict=True))  # those of the examples
        keys = self.state.keys is not None
        body = docs_body(self.dialects, str(request.base_url), codes, keys)
        page = self._docs.substitute(body=body)
        return Response(page, media_type="text/html", headers=_HEADERS)

    async def spec(self, request: Request) -> Response:
        """Describe every operation in OpenAPI 3.1."""
        return JSONResponse(openapi(self.dialects))

    async def livez(self, request: Request) -> Response:
        """Say that the process runs."""
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Say whether the server can translate."""
        ready = self.state.service is not None and self.scheduler.alive
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the counts of the server in Prometheus' format."""
        client_of(self.state, request, self.no_key)
        return Response(self.state.metrics.text(), media_type="text/plain; version=0.0.4")
