"""Bodies and documents of requests, read and written without PyTorch, if large in processes.

`Readers` calls the functions of this module, for large bodies and documents in a process of their
own. So arguments and results are texts, numbers, bytes, tuples, lists and dicts.
"""

import asyncio
import contextlib
import gc
import json
import marshal
import os
import re
import resource
import signal
import struct
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from crosshead.addons.serving.errors import Failed
from crosshead.errors import DataError, UserError
from crosshead.text.documents.document import Document, texts_of
from crosshead.text.documents.formats import FORMATS, parser_of
from crosshead.text.documents.plain import flowing_parts
from crosshead.text.documents.xml import xml_parts

T = TypeVar("T")

DETECTED = 2000
"""The number of characters by which a language is detected."""

_PARSERS = {**{name: parser_of(name) for name in FORMATS}, "flowing": flowing_parts}

_SIZE = struct.Struct("<Q")
"""The number of bytes before a request to a process and before its answer."""

_MEMORY = 2**30
"""The memory that a process may have. Lines of one letter need the most for their size, and a
megabyte of them takes 0.3 GiB."""

_MOST_SENTENCES = 250_000
"""The most sentences of a request. Their translations take a few kilobytes each."""

_ESCAPE = re.compile(b"%([0-9a-fA-F]{2})")

SMALL = 4_000
"""The most characters or bytes that are read in the event loop. Reading them takes about a
millisecond, and a process needs about as long to get and return them."""

_LARGE = 2**18
"""The characters from which on a text is large. Its process ends with it, which frees its memory at
once."""

_SLICE = 0.001
"""The seconds after which work in the event loop lets others go on. A request waits for the loop
about ten times."""


class Reading(NamedTuple):
    """The way in which the texts of a request are read.

    Attributes:
        format: A name in `FORMATS`, `xml`, or `flowing` for plain text whose line breaks mean
            nothing.
        whole: True if a text is a single sentence.
        language: The language of the texts, whose rules end their sentences.
        target: The language of the translations.
        splitting: The tags of XML between which no sentence goes on.
        ignored: The tags of XML whose content is not translated.
    """

    format: str = "text"
    whole: bool = False
    language: str | None = None
    target: str | None = None
    splitting: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def document(self, text: str) -> Document:
        """Return a text as sentences to translate and markup to keep."""
        parser = _PARSERS.get(self.format) or partial(
            xml_parts, splitting=self.splitting, ignored=self.ignored
        )
        return Document.of(text, parser, self.language, self.target, whole=self.whole)


def has_letters(text: str) -> bool:
    """Return whether a text has a letter of any script."""
    return any(character.isalpha() for character in text)


def json_values(body: bytes, fields: int) -> dict[str, Any] | None:
    """Return the values of a JSON object: numbers, texts and lists of texts; None if it is none.

    `glossary` may be a dict of texts. Every other value is replaced by an empty dict, and
    every other list by a list of one, since no route takes one.
    """
    try:
        text = body.decode(json.detect_encoding(body))
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # half a character would be no text
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    if len(found) > fields:
        raise _too_many(fields)
    return {name: _flat(name, value, fields) for name, value in found.items()}


def _flat(name: str, value: Any, fields: int) -> Any:
    if name == "glossary" and isinstance(value, dict):
        return value if all(isinstance(each, str) for each in value.values()) else [{}]
    if not isinstance(value, list):
        return {} if isinstance(value, dict) else value
    if not all(isinstance(each, str) for each in value):
        return [{}]
    return value if name in ("q", "text") else value[:fields]


def _too_many(fields: int) -> DataError:
    return DataError(f"Too many fields. Maximum number of fields is {fields}.")


def form_values(body: bytes, fields: int) -> list[tuple[str, str]]:
    """Return the names and values of a form that is written like a query."""
    if body.count(b"&") >= fields:
        raise _too_many(fields)
    pairs = (field.partition(b"=") for field in body.split(b"&") if field)
    return [(_unquoted(name), form_text(_unquoted(value))) for name, _, value in pairs]


def form_text(value: str) -> str:
    """Return a value of a form; its line endings are those of the network, not of the text."""
    return value.replace("\r\n", "\n")


def _unquoted(value: bytes) -> str:
    # Python's `unquote` needs 170 bytes of memory for each escaped byte.
    found = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), value.replace(b"+", b" "))
    return found.decode("utf-8", "replace")


def sample_of(texts: Sequence[str], reading: Sequence[Any]) -> str:
    """Return the beginning of texts, without markup, to detect their language."""
    way = Reading(*reading)
    found: list[str] = []
    count = 0
    for text in texts:
        if count >= DETECTED:
            break
        # Plain text has no markup, so its beginning is enough.
        plain = way.format in ("text", "flowing")
        found += [text.lstrip()[:DETECTED]] if plain else texts_of(way.document(text).parts)
        count = sum(map(len, found))
    return "\n".join(found)[:DETECTED]


def sentences_of(texts: Sequence[str], reading: Sequence[Any]) -> list[list[str]]:
    """Return the sentences of each text, without white space around them."""
    found: list[list[str]] = []
    left = _MOST_SENTENCES
    for text in texts:
        found.append(Reading(*reading).document(text).sentences)
        left -= len(found[-1])
        if left < 0:
            raise DataError(f"it has more than {_MOST_SENTENCES:,} sentences; send it in parts")
    return found


def with_translations(
    texts: Sequence[str], reading: Sequence[Any], translations: Sequence[Sequence[Sequence[str]]]
) -> list[list[str]]:
    """Return the translations of each text, all different."""
    found = []
    for text, ranks in zip(texts, translations, strict=True):
        document = Reading(*reading).document(text)
        found.append(list(dict.fromkeys(map(document.with_translations, ranks))))
    return found


def serve_parent() -> None:
    """Answer the parent process, until it closes the pipe."""
    # Signals to the whole group are for the parent, which ends this process when it ends itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    gc.disable()  # texts have no cycles, and looking for them takes most of the time
    while size := sys.stdin.buffer.read(_SIZE.size):
        name, values = marshal.loads(sys.stdin.buffer.read(*_SIZE.unpack(size)))
        try:
            answer = marshal.dumps(("", globals()[name](*values)))
        except UserError as error:
            answer = marshal.dumps((str(error), None))
        except MemoryError:
            answer = marshal.dumps(("it takes too much memory to read; send it in parts", None))
        sys.stdout.buffer.write(_SIZE.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


def _end_with_parent(parent: int) -> None:
    """End this process after its parent, whatever it reads."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


class Readers:
    """Processes that read the large bodies and documents of requests, one at a time for a client.

    A process is killed when nobody waits for it any more: when the client has gone, the deadline
    has passed, or the server ends. Its scheduling priority is lower than the server's.
    """

    def __init__(self, most: int = 4) -> None:
        # Large texts do not keep the smaller ones of others waiting.
        self._free = {is_large: asyncio.Semaphore(most) for is_large in (False, True)}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._idle: list[Process] = []

    async def call(self, client: str, size: int, function: Callable[..., T], *values: Any) -> T:
        """Return what a function of this module returns."""
        if size <= SMALL:
            return function(*values)
        turn = self._turns.setdefault(client, asyncio.Lock())
        async with turn, self._free[size > _LARGE]:
            process, answer = None, None
            self._idle = [each for each in self._idle if each.returncode is None]
            try:
                process = self._idle.pop() if self._idle else await _started()
                answer = await _answer(process, (function.__name__, values))
            except (asyncio.IncompleteReadError, OSError):
                raise Failed from None
            finally:
                if process is not None and answer is not None and size <= _LARGE:
                    self._idle.append(process)
                elif process is not None:
                    await _ended(process)
        error, found = answer
        if error:
            raise DataError(error)
        return cast(T, found)

    async def close(self) -> None:
        """End the processes that have nothing to do."""
        while self._idle:
            await _ended(self._idle.pop())


async def _started() -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        f"from {__name__} import serve_parent; serve_parent()",
        stdin=PIPE,
        stdout=PIPE,
        limit=2**20,
    )


async def _answer(process: Process, request: Any) -> tuple[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    data = marshal.dumps(request)
    process.stdin.writelines([_SIZE.pack(len(data)), data])
    await process.stdin.drain()
    [size] = _SIZE.unpack(await process.stdout.readexactly(_SIZE.size))
    found: tuple[str, Any] = marshal.loads(await process.stdout.readexactly(size))
    return found


async def _ended(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and let the event loop go on in between."""
    end = time.perf_counter() + _SLICE
    for item in items:
        yield item
        if time.perf_counter() > end:
            await asyncio.sleep(0)
            end = time.perf_counter() + _SLICE
