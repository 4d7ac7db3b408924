"""The pages, their files and descriptions, and the operations that watch the server."""

import re
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from crosshead.addons.serving.dialect import Dialect, Operation
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.requests import State, client_of
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.system.web import page_files
from crosshead.version import __version__

_PAGES = {"index.html": "/", "docs.html": "/docs"}
"""The paths of the pages; other files have their names below `/page/`."""

_ERRORS = (
    "400 or 422: a value is missing or wrong. 401 or 403: the key is missing or wrong, or what the "
    "request asks for is not allowed. 404: there is no such path or file. 408: the body did not "
    "arrive in time. 413: the body or the text is too large, or would take longer than a request "
    "may. 429: the client asks too often, or too much of its work waits. 503: the server is "
    "loading, has too much to do, or missed the deadline. With 429 and 503, `Retry-After` has the "
    "seconds to wait."
)
"""The statuses of errors, which are the same for all operations."""


class Pages(Dialect):
    """The handlers for people, and for the programs that watch the server."""

    name = "Operation and pages"
    text = "Paths for people, and for the programs that watch the server."

    def __init__(self, state: State, scheduler: Scheduler, others: list[Dialect]) -> None:
        super().__init__(state)
        self.scheduler, self.dialects = scheduler, [*others, self]
        found = page_files("crosshead.addons.serving")
        self._files = {_PAGES.get(name, f"/page/{name}"): each for name, each in found.items()}

    def operations(self) -> list[Operation]:
        """Return the operations."""
        html, text = "text/html", "text/plain"
        return [
            Operation("GET", "/", self.page, "The page that translates.", media=html),
            Operation("GET", "/page/{name}", self.page, "The file.", media="*/*"),
            Operation("GET", "/docs", self.page, "This description as a page.", media=html),
            Operation("GET", "/spec", self.spec, "The description."),
            Operation("GET", "/v1/openapi.json", self.spec, "The same description."),
            Operation("GET", "/livez", self.livez, "`ok`.", media=text),
            Operation("GET", "/readyz", self.readyz, "It can.", media=text),
            Operation("GET", "/metrics", self.metrics, "The counts.", media=text, key=True),
        ]  # fmt: skip

    async def page(self, request: Request) -> Response:
        """Return a page, or one of its files."""
        found = self._files.get(request.scope["path"])
        if found is None:
            raise RequestError(404, "there is no such file")
        if found.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=found.headers)
        return Response(found.content, media_type=found.kind, headers=found.headers)

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


def schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON schema of the values of an operation."""
    return {} if operation.form is None else operation.form.model_json_schema()


def openapi(dialects: Sequence[Dialect]) -> dict[str, Any]:
    """Return the description of every operation in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for dialect in dialects:
        for each in dialect.operations():
            described: dict[str, Any] = {
                "tags": [dialect.name],
                "summary": (each.handler.__doc__ or "").partition("\n")[0],
                "parameters": _parameters(each),
                "responses": {
                    str(each.status): {"description": each.answer, "content": {each.media: {}}},
                    "default": {"description": "An error."},
                },
            }
            if each.key:
                described["security"] = [{"key": []}]
            if each.form is not None and each.method == "POST":
                content = {kind: {"schema": schema(each)} for kind in each.takes}
                described["requestBody"] = {"required": True, "content": content}
            paths.setdefault(each.path, {})[each.method.lower()] = described
    tags = [{"name": each.name, "description": each.text} for each in dialects]
    info = {"title": "crosshead", "version": __version__, "description": _ERRORS}
    key = {"type": "http", "scheme": "bearer", "description": "Only on a server with keys."}
    return {
        "openapi": "3.1.0", "info": info, "tags": tags, "paths": paths,
        "components": {"securitySchemes": {"key": key}},
    }  # fmt: skip


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    """Return the values of an operation that stand in its path or its query."""
    text = {"type": "string"}
    found = [
        {"name": name, "in": "path", "required": True, "schema": text}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    if operation.method == "GET":
        values = schema(operation).get("properties", {})
        found += [{"name": name, "in": "query", "schema": each} for name, each in values.items()]
    return found
