"""The web application: routes, limits of bodies, headers and counts."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route, Router

from crosshead.addons.serving.deepl import DeepL
from crosshead.addons.serving.dialect import Dialect
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.libretranslate import LibreTranslate
from crosshead.addons.serving.pages import Pages
from crosshead.addons.serving.requests import State
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.v1 import V1
from crosshead.errors import UserError

_logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HEADERS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-expose-headers", b"Authorization"),
    (b"access-control-allow-methods", b"DELETE, GET, POST"),
    (b"access-control-max-age", b"1728000"),
    (b"x-content-type-options", b"nosniff"),
)
"""The headers of every answer. LibreTranslate also allows credentials from any origin, which is
neither safe nor valid, so that this header is left out."""


class Guard:
    """The routes of all dialects, with limits of bodies, headers, answers to errors, and counts.

    A browser sends OPTIONS before a page of another origin may send JSON or a key.
    """

    def __init__(self, state: State, dialects: Sequence[Dialect]) -> None:
        self.state, self.dialects = state, dialects
        self.routes = [route for each in dialects for route in each.routes()]
        self._router = Router(self.routes)
        self._error_names = {
            route.path: each.error_name for each in dialects for route in each.routes()
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        begin, status = time.perf_counter(), 0
        route = self._route(scope)
        path = "other" if route is None else route.path  # there are few of them

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            await self._answer(scope, receive, noted, route)
        except (Exception, asyncio.CancelledError) as error:
            if status:  # the answer has begun
                raise
            answer = error_answer(error, self._error_names.get(path, "error"))
            await answer(scope, receive, noted)
        finally:
            self.state.metrics.requests.labels(path, str(status or 500)).inc()
            self.state.metrics.seconds.labels(path).observe(time.perf_counter() - begin)

    async def _answer(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send, route: Route | None
    ) -> None:
        headers = Headers(scope=scope)
        most = self.state.most_bytes(headers)
        if int(headers.get("content-length", "0")) > most:
            raise self._too_large(most)
        if scope["method"] == "OPTIONS" and route is not None:
            same = [each.methods or () for each in self.routes if each.path == route.path]
            allowed = ", ".join(sorted({"OPTIONS"}.union(*same)))
            await Response(status_code=204, headers={"Allow": allowed})(scope, receive, send)
        else:
            await self._router(scope, self._counted(receive, most), send)

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
        return RequestError(413, message, close=True)

    def _route(self, scope: MutableMapping[str, Any]) -> Route | None:
        """Return the route of a request, whatever its method."""
        return next((each for each in self.routes if each.matches(scope)[0] != Match.NONE), None)


def error_answer(error: BaseException, name: str) -> Response:
    """Return the answer to a request that ended with an error, without paths or tracebacks."""
    if isinstance(error, UserError):
        error = RequestError(400, f"Invalid request: {error}")
    elif isinstance(error, asyncio.CancelledError):  # only the end of the server cancels a request
        error = RequestError(503, "the server stops", after=5, close=True)
    elif isinstance(error, ClientDisconnect):
        error = RequestError(499, "the client has gone")
    elif not isinstance(error, RequestError):
        _logger.error("a request failed: %s", type(error).__name__)
        error = RequestError(500, "internal error")
    return JSONResponse({name: error.message}, error.status, headers=error.headers)


def make_app(state: State, scheduler: Scheduler) -> Guard:
    """Return the web application."""
    dialects = [LibreTranslate(state), V1(state), DeepL(state)]
    return Guard(state, [*dialects, Pages(state, scheduler, dialects)])
