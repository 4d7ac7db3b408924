"""The web application: routes, limits of bodies, headers and counts."""

import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Match, Route

from crosshead.addons.serving.deepl import DeepL
from crosshead.addons.serving.dialect import Dialect
from crosshead.addons.serving.libretranslate import LibreTranslate
from crosshead.addons.serving.pages import Pages
from crosshead.addons.serving.requests import RequestError, State, error_response
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.v1 import V1

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
    """The routes of all dialects, with limits of bodies, headers, answers to OPTIONS, and counts.

    A browser sends OPTIONS before a page of another origin may send JSON or a key.
    """

    def __init__(self, state: State, dialects: Sequence[Dialect]) -> None:
        self.state, self.dialects = state, dialects
        self.routes = [route for each in dialects for route in each.routes()]
        self.app = Starlette(routes=self.routes)

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
    dialects = [LibreTranslate(state), V1(state), DeepL(state)]
    return Guard(state, [*dialects, Pages(state, scheduler, dialects)])
