"""The web application: routes, limits of bodies, headers and counts."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Route

from crosshead.addons.serving.deepl import DeepL
from crosshead.addons.serving.descriptions import Descriptions
from crosshead.addons.serving.libretranslate import LibreTranslate
from crosshead.addons.serving.page_files import page_routes
from crosshead.addons.serving.requests import (
    RequestError,
    State,
    client_of,
    error_response,
    with_error_responses,
)
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.v1 import NO_KEY, V1

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HEADERS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-expose-headers", b"Authorization"),
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-max-age", b"1728000"),
    (b"x-content-type-options", b"nosniff"),
)
"""The headers of every answer. LibreTranslate also allows credentials from any origin, which is
neither safe nor valid, so that this header is left out."""


STATUS = "crosshead.status"
"""The key under which the protocol notes a status that it has answered itself, in the state of a
request."""


class Guard:
    """Middleware that limits bodies, adds headers, answers OPTIONS, and counts requests.

    A browser sends OPTIONS before a page of another origin may send JSON or a key.
    """

    def __init__(self, app: Any, state: State, routes: list[Route]) -> None:
        self.app, self.state, self.routes = app, state, routes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500
        scope["path"] = _path(scope["path"])
        route = self._route(scope)

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            headers = Headers(scope=scope)
            most = self.state.most_bytes(headers)
            if int(headers.get("content-length", "0")) > most:
                answer = error_response(self._too_large(most))
                await answer(scope, receive, noted)
            elif scope["method"] == "OPTIONS" and route is not None:
                allowed = ", ".join(sorted({*(route.methods or ()), "OPTIONS"}))
                await Response(status_code=204, headers={"Allow": allowed})(scope, receive, noted)
            else:
                await self.app(scope, self._counted(receive, most), noted)
        finally:
            status = scope.get("state", {}).get(STATUS, status)
            path = "other" if route is None else route.path  # there are few of them
            self.state.metrics.requests.labels(path, str(status)).inc()
            self.state.metrics.seconds.labels(path).observe(time.perf_counter() - begin)

    def _counted(self, receive: Receive, most: int) -> Receive:
        """Return a function that receives a body, and raises an error once it is too large."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise self._too_large(most)
            return message

        return counted

    def _too_large(self, most: int) -> RequestError:
        message = f"Invalid request: the body is larger than {most} bytes"
        if most < self.state.settings.body:
            message += "; to send more, send the key in the header Authorization"
        return RequestError(413, message, {"Connection": "close"})

    def _route(self, scope: MutableMapping[str, Any]) -> Route | None:
        """Return the route of a request, whatever its method."""
        return next((each for each in self.routes if each.matches(scope)[0] != Match.NONE), None)


def _path(target: str) -> str:
    """Return the path of a request's target, which may be a whole URL (RFC 9112, section 3.2.2)."""
    if not target.lower().startswith(("http://", "https://")):
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def make_app(state: State, scheduler: Scheduler) -> Guard:
    """Return the web application."""

    async def livez(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        ready = state.service is not None and scheduler.alive
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    async def metrics(request: Request) -> Response:
        client_of(state, request, NO_KEY)
        return Response(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        *LibreTranslate(state).routes(),
        *V1(state).routes(),
        *DeepL(state).routes(),
        *Descriptions(state).routes(),
        *page_routes(),
        Route("/livez", livez, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", with_error_responses(metrics), methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), state, routes)
