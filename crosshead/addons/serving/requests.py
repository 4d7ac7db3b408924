"""The steps of every request: its key, its rate, its body, its work, its errors."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from ipaddress import IPv6Network
from typing import Any, NamedTuple, TypeVar

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from crosshead.addons.serving.errors import DeadlineExceeded, RequestError
from crosshead.addons.serving.glossaries import Glossaries
from crosshead.addons.serving.keys import Keys, Rates, Usage
from crosshead.addons.serving.reading import Readers, form_text, form_values, json_values
from crosshead.addons.serving.service import Service
from crosshead.addons.serving.stores import Files, Metrics, Suggestions

T = TypeVar("T")

_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1")
"""The charsets that a form may name."""

_FIELDS = 100
"""The largest number of fields of a form, apart from those that may be repeated."""

_UNKEYED = 64 * 2**10
"""The largest body in bytes of a request without a key in its header, if the server has keys."""

_FAILURES = 60
"""The largest number of requests a minute of an address without a valid key, if the server has
keys and no limit of its own."""


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
        body: The largest body in bytes.
        seconds: The time until a request's deadline.
        body_seconds: The time in which a body must have arrived.
    """

    characters: int = 0
    texts: int = 1000
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
        glossaries: The stored glossaries.
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
    glossaries: Glossaries = field(default_factory=Glossaries)
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
        raise RequestError(503, "the server is loading its models", after=5)
    return state.service


def client_of(
    state: State, request: Request, missing: tuple[int, str], secret: object = None
) -> str:
    """Return the name of a client for fair turns and rates, after a check of its key.

    Without a key, the error has the status and the message of `missing`.
    """
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
        raise RequestError(*missing)
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
        raise RequestError(429, "Slowdown: too many requests", after=seconds)


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
        raise RequestError(408, message, close=True) from None
    except (MultiPartException, FormParserError) as error:  # older releases of Starlette raise both
        reason = getattr(error, "message", "Invalid multipart data.")
        raise RequestError(400, f"Invalid request: {reason}") from None
    request.state.end = time.monotonic() + settings.seconds
    if read is not None:
        reading = state.readers.call(client, len(body), read, body, fields)
        found = await unless_gone(request, reading)
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
    options = parse_options_header(request.headers["content-type"])[1]
    charset = options.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _CHARSETS:
        raise RequestError(400, f"Invalid request: the form is in {charset}; send it in UTF-8")
    # The body has a limit of its own, so a field needs no smaller one.
    async with request.form(max_files=1, max_fields=fields, max_part_size=most) as form:
        return [(name, await _part(value)) for name, value in form.multi_items()]


async def _part(value: UploadFile | str) -> str | Upload:
    if isinstance(value, str):
        return form_text(value)
    return Upload(value.filename or "", await value.read())


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
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
        raise RequestError(499, "the client has gone") if done else DeadlineExceeded
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.wait({task, gone})  # a process that reads for the request ends before it


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
