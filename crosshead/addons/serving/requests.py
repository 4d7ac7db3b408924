"""The steps of every request: its key, its rate, its body, its work, its errors."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from ipaddress import IPv6Network
from typing import Any, NamedTuple, TypeVar

from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from crosshead.addons.serving.keys import Keys, Rates, Usage
from crosshead.addons.serving.metrics import Metrics
from crosshead.addons.serving.readers import Readers
from crosshead.addons.serving.reading import form_text, form_values, json_values
from crosshead.addons.serving.sentence import DeadlineExceeded, Failed, Overloaded, TooLong
from crosshead.addons.serving.service import Service
from crosshead.addons.serving.stores import Files, Suggestions
from crosshead.errors import UserError

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")
"""The charsets that a form may name."""

_FIELDS = 100
"""The largest number of fields of a form, apart from those that may be repeated."""

_UNKEYED = 64 * 2**10
"""The largest body in bytes of a request without a key in its header, if the server has keys."""

_FAILURES = 60
"""The largest number of requests a minute of an address without a valid key, if the server has
keys and no limit of its own."""


class RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        # A message may name a value of the request, which may be long.
        self.status, self.message, self.headers = status, message[:1000], dict(headers or {})


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
    texts: int = 1000
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
        readers: The processes that read large bodies and documents.
        failures: The rates of requests without a valid key, by address.
    """

    settings: Settings
    metrics: Metrics
    rates: Rates
    keys: Keys | None = None
    suggestions: Suggestions | None = None
    service: Service | None = None
    files: Files = field(default_factory=Files)
    usage: Usage = field(default_factory=Usage)
    readers: Readers = field(default_factory=Readers)
    failures: Rates = field(init=False)

    def __post_init__(self) -> None:
        self.failures = Rates(self.rates.per_minute or _FAILURES)

    def most_bytes(self, headers: Headers) -> int:
        """Return the largest size of a body: less if its key is not known before it is read."""
        most = self.settings.body
        return most if self.keys is None or header_key(headers) else min(most, _UNKEYED)


def ready_service(state: State) -> Service:
    """Return the service, or raise an error while the bundles load."""
    if state.service is None:
        raise RequestError(503, "the server is loading its models", {"Retry-After": "5"})
    return state.service


def client_of(state: State, request: Request, missing: RequestError, secret: object = None) -> str:
    """Return the name of a client for fair turns and rates, after a check of its key."""
    if state.keys is None:
        address = _address(request)
        _limit(state.rates.wait(address))
        return address
    address = limited_address(state, request)
    secret = header_key(request.headers) or secret
    key = state.keys.find(str(secret)) if secret else None
    if key is None:
        state.failures.wait(address)
        if secret:
            raise RequestError(403, "Invalid API key")
        # A shared error would keep the frames of every request that raised it.
        raise RequestError(missing.status, missing.message, missing.headers)
    client = f"key {key.name}"
    _limit(state.rates.wait(client, key.per_minute))
    return client


def limited_address(state: State, request: Request) -> str:
    """Return the address of a request, or raise an error after too many wrong keys.

    No answer then tells whether a key is right.
    """
    address = _address(request)
    _limit(state.failures.wait(address, count=False))
    return address


def _address(request: Request) -> str:
    host = request.client.host if request.client else ""
    with contextlib.suppress(ValueError):  # a user of IPv6 has 2^64 addresses or more
        host = str(IPv6Network((host.partition("%")[0], 64), strict=False))
    return f"address {host}"


def _limit(seconds: float) -> None:
    """Raise an error if a client must wait."""
    if seconds:
        after = {"Retry-After": str(math.ceil(seconds))}
        raise RequestError(429, "Slowdown: too many requests", after)


def header_key(headers: Headers) -> str:
    """Return the key in the headers of a request, or an empty string."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else ""


async def read_values(
    state: State, request: Request, client: str, repeated: Collection[str]
) -> dict[str, Any]:
    """Return the values of a request: its JSON object, its form, or its query."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    settings = state.settings
    # A form repeats a field for each of its texts.
    fields = _FIELDS + (settings.texts or settings.body) if repeated else _FIELDS
    given: list[tuple[str, Any]] = request.query_params.multi_items()
    read: Callable[..., Any] | None = {
        "application/json": json_values, "application/x-www-form-urlencoded": form_values,
    }.get(kind)  # fmt: skip
    try:
        async with asyncio.timeout(settings.body_seconds):
            if kind == "multipart/form-data":
                given += await _multipart(request, fields, settings.body)
            else:
                body = await request.body()
    except TimeoutError:
        message = "the body of the request did not arrive in time"
        raise RequestError(408, message, {"Connection": "close"}) from None
    except (HTTPException, FormParserError) as error:  # older releases of Starlette raise both
        reason = getattr(error, "detail", "Invalid multipart data.")
        raise RequestError(400, f"Invalid request: {reason}") from None
    request.state.end = time.monotonic() + settings.seconds
    if read is not None:
        reading = state.readers.call(client, len(body), read, body, fields)
        found = await unless_gone(state, request, client, reading)
        if read is json_values:
            if found is None:
                raise RequestError(400, "Invalid JSON format")
            return dict(found)
        given += found
    return dict(given) | {
        name: [value for key, value in given if key == name]
        for name in repeated
        if any(key == name for key, _ in given)
    }


async def _multipart(request: Request, fields: int, most: int) -> list[tuple[str, str | Upload]]:
    # Python has charsets that take minutes to decode, and some that are no charsets.
    kind = EmailMessage()
    kind["Content-Type"] = request.headers["content-type"]
    charset = kind.get_content_charset("utf-8")
    if charset not in _CHARSETS:
        raise RequestError(400, f"Invalid request: the form is in {charset}; send it in UTF-8")
    # The body has a limit of its own, so a field needs no smaller one.
    async with request.form(max_files=1, max_fields=fields, max_part_size=most) as form:
        return [(name, await _part(value)) for name, value in form.multi_items()]


async def _part(value: UploadFile | str) -> str | Upload:
    if isinstance(value, str):
        return form_text(value)
    return Upload(value.filename or "", await value.read())


async def unless_gone(state: State, request: Request, client: str, work: Awaitable[T]) -> T:
    """Return the result of work, or cancel it when the client has gone or its deadline passes."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    left = request.state.end - time.monotonic()
    try:
        done, _ = await asyncio.wait(
            {task, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED
        )
        if task in done:
            return task.result()
        raise RequestError(499, "the client has gone") if done else _too_late(state.settings)
    except TooLong as error:  # without Retry-After: it would take as long again
        raise RequestError(413, f"Invalid request: {error}") from None
    except Overloaded as refused:
        after = {"Retry-After": str(refused.seconds)}
        if refused.own:
            count = ready_service(state).scheduler.waiting_of(client)
            message = f"you have {count:,} sentences waiting; send more when they are done"
            raise RequestError(429, message, after) from None
        raise RequestError(503, "the server is busy; try again later", after) from None
    except DeadlineExceeded:
        raise _too_late(state.settings) from None
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.wait({task, gone})  # a process that reads for the request ends before it


def _too_late(settings: Settings) -> RequestError:
    message = f"the request took longer than {settings.seconds:g} s; send a shorter text"
    return RequestError(503, message, {"Retry-After": "5"})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


Handler = Callable[[Request], Awaitable[Response]]
"""A function that answers a request."""


def error_response(error: RequestError) -> Response:
    """Return the answer to a request that cannot be answered otherwise."""
    return JSONResponse({"error": error.message}, error.status, headers=error.headers)


def with_error_responses(
    handler: Handler, of_error: Callable[[RequestError], Response] = error_response
) -> Handler:
    """Return a handler that answers errors with JSON, without paths or tracebacks."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return of_error(error)
        except UserError as error:
            return of_error(RequestError(400, f"Invalid request: {error}"))
        except Failed:
            after = {"Retry-After": "1"}
            return of_error(RequestError(503, "the text could not be translated", after))
        except asyncio.CancelledError:  # only the end of the server cancels a request
            after = {"Retry-After": "5", "Connection": "close"}
            return of_error(RequestError(503, "the server stops", after))
        except ClientDisconnect:
            return of_error(RequestError(499, "the client has gone"))
        except Exception as error:
            _logger.error("a request failed: %s", type(error).__name__)
            return of_error(RequestError(500, "internal error"))

    return answer
