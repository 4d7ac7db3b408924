"""The steps of every request: its body, its key, its rate, its work, its errors."""

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from crosshead.errors import UserError
from crosshead.serving.keys import Keys, Rates, Usage
from crosshead.serving.metrics import Metrics
from crosshead.serving.sentence import Failed, Late, Refused, TooLong
from crosshead.serving.service import Service
from crosshead.serving.stores import Files, Suggestions

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class RequestError(Exception):
    """A request that is answered with an error.

    Args:
        status: The HTTP status.
        message: What is wrong, for the client.
        headers: Further headers.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class Upload(NamedTuple):
    """An uploaded file.

    Attributes:
        name: Its name, as the client gives it.
        data: Its content.
    """

    name: str
    data: bytes


@dataclass(frozen=True)
class Settings:
    """The limits of requests.

    Attributes:
        characters: The largest number of characters of a request; 0 is no limit.
        texts: The largest number of texts of a request; 0 is no limit.
        alternatives: The largest number of alternatives.
        body: The largest body in bytes.
        seconds: The time until a request's deadline.
        body_seconds: The time in which a body must have arrived.
    """

    characters: int = 0
    texts: int = 0
    alternatives: int = 9
    body: int = 10 * 2**20
    seconds: float = 60.0
    body_seconds: float = 20.0


@dataclass
class State:
    """State that the routes of a server share.

    Attributes:
        settings: The limits of requests.
        metrics: The counters.
        rates: The rates of clients.
        keys: The keys, or None if everybody may ask.
        suggestions: Where suggestions go, or None.
        service: The translators, or None while they load.
        files: Translated files.
        usage: The translated characters of clients.
    """

    settings: Settings
    metrics: Metrics
    rates: Rates
    keys: Keys | None = None
    suggestions: Suggestions | None = None
    service: Service | None = None
    files: Files = field(default_factory=Files)
    usage: Usage = field(default_factory=Usage)


def ready_service(state: State) -> Service:
    """Return the service, or raise an error while the bundles load.

    Args:
        state: The state of the server.

    Raises:
        RequestError: If the bundles are not loaded.
    """
    if state.service is None:
        raise RequestError(503, "the server is loading its models", {"Retry-After": "5"})
    return state.service


async def values_of(
    request: Request, seconds: float, repeated: Collection[str] = ()
) -> dict[str, Any]:
    """Return the values of a request: its JSON object, its form, or its query.

    Args:
        request: The request.
        seconds: The time in which the body must have arrived.
        repeated: Names of fields that a form or a query may repeat; their values are lists.

    Raises:
        RequestError: If the body is no JSON object, or too slow.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        async with asyncio.timeout(seconds):
            if kind == "application/json":
                return _json_object(await request.body())
            given: list[tuple[str, Any]] = request.query_params.multi_items()
            if kind in ("multipart/form-data", "application/x-www-form-urlencoded"):
                async with request.form(max_files=1, max_fields=100) as form:
                    for name, value in form.multi_items():
                        given.append((name, await _form_value(value)))
            else:
                await request.body()
            return dict(given) | {
                name: [value for key, value in given if key == name]
                for name in repeated
                if any(key == name for key, _ in given)
            }
    except TimeoutError:
        message = "the body of the request did not arrive in time"
        raise RequestError(408, message, {"Connection": "close"}) from None
    except HTTPException as error:
        raise RequestError(400, f"Invalid request: {error.detail}") from None
    except FormParserError:  # older releases of Starlette do not catch it
        raise RequestError(400, "Invalid request: Invalid multipart data.") from None


async def _form_value(value: UploadFile | str) -> str | Upload:
    if isinstance(value, str):
        # Line endings of forms are those of the network, not of the text.
        return value.replace("\r\n", "\n")
    return Upload(value.filename or "", await value.read())


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode(json.detect_encoding(body))
        found = json.loads(text)
        if "\\ud" in text.lower():  # half a character would be no text
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestError(400, "Invalid JSON format")
    return found


def client_of(state: State, request: Request, secret: object, missing: RequestError) -> str:
    """Return the name of a client for fair turns and rates, after a check of its key.

    Args:
        state: The state of the server.
        request: The request.
        secret: The key in the values of the request, if there is one.
        missing: The error if a key is needed and there is none.

    Raises:
        RequestError: If the key is missing or wrong, or the client asks too often.
    """
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if not secret and scheme.lower() in ("bearer", "deepl-auth-key"):
        secret = given.strip()
    key = None
    if state.keys is not None:
        if not secret:
            raise missing
        key = state.keys.find(str(secret))
        if key is None:
            raise RequestError(403, "Invalid API key")
    address = request.client.host if request.client else ""
    client = f"key {key.name}" if key else f"address {address}"
    seconds = state.rates.wait(client, key.per_minute if key else None)
    if seconds:
        raise RequestError(
            429,
            "Slowdown: too many requests",
            {"Retry-After": str(math.ceil(seconds))},
        )
    return client


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of work, or cancel it when the client has gone.

    Args:
        request: The request, whose body has been read.
        work: The work.

    Raises:
        RequestError: If the client has gone, the deadline has passed, or there is too much work.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RequestError(499, "the client has gone")
        return task.result()
    except TooLong as error:  # without Retry-After: it would take as long again
        raise RequestError(413, f"Invalid request: {error}") from None
    except Refused as refused:
        after = {"Retry-After": str(refused.seconds)}
        if refused.own:
            raise RequestError(429, "Slowdown: too many sentences of yours wait", after) from None
        raise RequestError(503, "the server is busy; try again later", after) from None
    except Late:
        after = {"Retry-After": "5"}
        raise RequestError(503, "the request was not finished in time", after) from None
    except Failed:
        raise RequestError(503, "the text could not be translated", {"Retry-After": "1"}) from None
    except UserError as error:
        raise RequestError(400, f"Invalid request: {error}") from None
    finally:
        for each in (task, gone):
            each.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


Handler = Callable[[Request], Awaitable[Response]]
"""A function that answers a request."""


def answered_error(error: RequestError) -> Response:
    """Return the answer to a request that cannot be answered otherwise.

    Args:
        error: The error.
    """
    return JSONResponse({"error": error.message}, error.status, headers=error.headers)


def answered(
    handler: Handler, of_error: Callable[[RequestError], Response] = answered_error
) -> Handler:
    """Return a handler that answers errors with JSON, without paths or tracebacks.

    Args:
        handler: The handler.
        of_error: Function that returns the answer to an error.
    """

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return of_error(error)
        except ClientDisconnect:
            return of_error(RequestError(499, "the client has gone"))
        except Exception as error:
            _logger.error("a request failed: %s", type(error).__name__)
            return of_error(RequestError(500, "internal error"))

    return answer
