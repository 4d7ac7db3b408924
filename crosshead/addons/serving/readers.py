"""Processes that read large bodies and documents, so that they stop nobody and can be ended."""

import asyncio
import contextlib
import marshal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable
from time import perf_counter
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from crosshead.addons.serving.reading import SIZE
from crosshead.addons.serving.sentence import Failed
from crosshead.errors import DataError

T = TypeVar("T")

SMALL = 4_000
"""The most characters or bytes that are read in the event loop. Reading them takes about a
millisecond, and a process needs about as long to get and return them."""

_LARGE = 2**18
"""The characters from which on a text is large. Its process ends with it, which frees its memory at
once."""

_SLICE = 0.001
"""The seconds after which work in the event loop lets others go on. A request waits for the loop
about ten times."""

_PROGRAM = "from crosshead.addons.serving.reading import serve_parent; serve_parent()"


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
        """Return what a function of `crosshead.addons.serving.reading` returns."""
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
                raise Failed("the process that reads texts has ended") from None
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
        sys.executable, "-P", "-c", _PROGRAM, stdin=PIPE, stdout=PIPE, limit=2**20
    )


async def _answer(process: Process, request: Any) -> tuple[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    data = marshal.dumps(request)
    process.stdin.writelines([SIZE.pack(len(data)), data])
    await process.stdin.drain()
    [size] = SIZE.unpack(await process.stdout.readexactly(SIZE.size))
    found: tuple[str, Any] = marshal.loads(await process.stdout.readexactly(size))
    return found


async def _ended(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and let the event loop go on in between."""
    end = perf_counter() + _SLICE
    for item in items:
        yield item
        if perf_counter() > end:
            await asyncio.sleep(0)
            end = perf_counter() + _SLICE
