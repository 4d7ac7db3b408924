"""The pages, their files and descriptions, and the operations that watch the server."""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import PurePath
from string import Template
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from crosshead.addons.serving.dialect import FILES, JSON, Dialect, Operation
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.requests import State, client_of
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.version import __version__

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

_STATUSES = {
    200: "The answer.",
    304: "The browser has the file already.",
    400: "A value is missing or wrong.",
    401: "A key is needed.",
    403: "The key is missing or wrong, or what it asks for is not allowed.",
    404: "There is no such file.",
    408: "The body did not arrive in time.",
    413: "The body or the text is too large, or would take longer than a request may.",
    422: "A value is missing or wrong; the message names it.",
    429: "The client asks too often, or too much of its work waits; see `Retry-After`.",
    503: "The server is loading, has too much to do, or missed the deadline; see `Retry-After`.",
}


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


def answers(dialect: Dialect, operation: Operation) -> dict[int, str]:
    """Return a sentence about each status of an operation."""
    return {
        status: operation.answer if status == 200 else _STATUSES[status]
        for status in dialect.statuses(operation)
    }


def summary(operation: Operation) -> str:
    """Return a sentence about an operation."""
    return (operation.handler.__doc__ or "").partition("\n")[0]


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
                "summary": summary(each),
                "parameters": _parameters(each),
                "responses": {
                    str(status): {"description": text}
                    for status, text in answers(dialect, each).items()
                },
            }
            described["responses"]["200"]["content"] = {each.media: {}}
            if each.form is not None and each.method == "POST":
                content = {kind: {"schema": schema(each)} for kind in each.takes}
                described["requestBody"] = {"required": True, "content": content}
            paths.setdefault(each.path, {})[each.method.lower()] = described
    tags = [{"name": each.name, "description": each.text} for each in dialects]
    info = {"title": "crosshead", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "tags": tags, "paths": paths}


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


def example(operation: Operation, address: str, codes: Mapping[str, str], key: bool) -> str:
    """Return a command that makes an example request."""
    values = {
        name: codes.get(each["examples"][0], each["examples"][0])
        for name, each in schema(operation).get("properties", {}).items()
        if "examples" in each
    }
    words = ["curl", "-s", address + operation.path.removeprefix("/")]
    if key and operation.key:
        words += ["-H", "Authorization: Bearer KEY"]
    if operation.method == "GET":
        words[2] += f"?{urlencode(values)}" if values else ""
    elif operation.takes[-1] == JSON:
        words += ["--json", json.dumps(values)]
    else:
        option = "-F" if operation.takes[-1] == FILES else "-d"
        words += [word for name, value in values.items() for word in (option, f"{name}={value}")]
    return shlex.join(words)


def docs_body(
    dialects: Sequence[Dialect], address: str, codes: Mapping[str, str], key: bool
) -> str:
    """Return the page's links to all operations, and a section of each."""
    links, sections = [], []
    for dialect in dialects:
        operations, name = dialect.operations(), escape(dialect.name)
        items = "".join(f'<li><a href="#{_anchor(e)}">{_name(e)}</a></li>\n' for e in operations)
        links.append(f"<li>{name}<ul>\n{items}</ul></li>\n")
        parts = "".join(_section(dialect, each, address, codes, key) for each in operations)
        text = f"<p>{_prose(dialect.text)}</p>\n"
        sections.append(f"<section>\n<h2>{name}</h2>\n{text}{parts}</section>\n")
    nav = f'<nav aria-label="Paths"><ul>\n{"".join(links)}</ul></nav>\n'
    return nav + "".join(sections)


def _section(
    dialect: Dialect, operation: Operation, address: str, codes: Mapping[str, str], key: bool
) -> str:
    name = _name(operation)
    told = summary(operation) + (" It needs a key." if key and operation.key else "")
    parts = [
        f'<h3 id="{_anchor(operation)}"><code>{name}</code></h3>\n<p>{_prose(told)}</p>\n',
        _table(f"Values of {name}", "value", _values(operation)),
        _table(f"Answers of {name}", "status", answers(dialect, operation)),
    ]
    if operation.example:
        command = escape(example(operation, address, codes, key))
        role = f'class="wide" role="region" tabindex="0" aria-label="Example of {name}"'
        parts.append(f"<pre {role}><code>{command}</code></pre>\n")
    return "".join(parts)


def _values(operation: Operation) -> dict[str, str]:
    """Return a sentence about each value of an operation."""
    found, described = dict[str, str](), schema(operation)
    for name, each in described.get("properties", {}).items():
        words = [each["description"]]
        if "enum" in each:
            words.append("One of " + ", ".join(f"`{choice}`" for choice in each["enum"]) + ".")
        if name in described.get("required", ()):
            words.append("Needed.")
        found[name] = " ".join(words)
    return found


def _table(caption: str, head: str, rows: Mapping[Any, str]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row"><code>{first}</code></th><td>{_prose(text)}</td></tr>\n'
        for first, text in rows.items()
    )
    heads = f'<th scope="col">{head}</th><th scope="col">meaning</th>'
    return (
        f'<table>\n<caption class="unseen">{caption}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    )


def _prose(text: str) -> str:
    """Return a sentence in HTML; what stands between backquotes is code."""
    return re.sub("`(.*?)`", r"<code>\1</code>", escape(text, quote=False))


def _name(operation: Operation) -> str:
    return f"{operation.method} {escape(operation.path)}"


def _anchor(operation: Operation) -> str:
    return re.sub(r"\W+", "-", f"{operation.method.lower()}{operation.path}").strip("-")
