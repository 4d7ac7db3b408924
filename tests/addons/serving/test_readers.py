"""Processes that read: they give what the functions give, and end when nobody waits for them."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crosshead.addons.serving.readers import SMALL, Readers, in_slices
from crosshead.addons.serving.reading import Reading, json_values, sentences_of
from crosshead.addons.serving.sentence import Failed
from crosshead.errors import DataError

LONG = "A dog. Two \udc80 dogs.\n" * SMALL
SLOW = "a\n" * 2_000_000


def ran(work: Callable[[Readers], Awaitable[None]], most: int = 2) -> None:
    async def ended() -> None:
        readers = Readers(most)
        try:
            await work(readers)
        finally:
            await readers.close()

    asyncio.run(ended())


def children() -> set[int]:
    """The children of this process."""
    places = Path("/proc/self/task").glob("*/children")
    return {int(number) for place in places for number in place.read_text().split()}


def test_a_process_gives_what_the_function_gives() -> None:
    before = children()

    async def work(readers: Readers) -> None:
        for text in (LONG, "A dog. "):
            found = await readers.call("me", len(text), sentences_of, [text], tuple(Reading()))
            assert found == sentences_of([text], Reading())
        assert len(children() - before) == 1
        with pytest.raises(DataError, match="times of a subtitle"):
            await readers.call("me", len(LONG), sentences_of, [LONG], tuple(Reading("srt")))
        assert await readers.call("me", 10**6, json_values, b"[" * 10**6, 9) is None

    ran(work)
    assert children() == before


def test_a_process_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "struct.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)

    async def work(readers: Readers) -> None:
        assert await readers.call("me", SMALL + 1, json_values, b"{}", 9) == {}

    ran(work)


def test_a_process_ends_with_the_work_that_waits_for_it() -> None:
    before = children()

    async def work(readers: Readers) -> None:
        call = readers.call("me", len(SLOW), sentences_of, [SLOW], tuple(Reading()))
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.5)
        assert time.monotonic() - begin < 5 and children() == before

    ran(work)


def test_large_texts_of_others_do_not_keep_a_smaller_one_waiting() -> None:
    async def work(readers: Readers) -> None:
        hogs = [
            asyncio.create_task(
                readers.call(f"hog {each % 3}", len(SLOW), sentences_of, [SLOW], tuple(Reading()))
            )
            for each in range(6)
        ]
        await asyncio.sleep(0.2)
        found = await readers.call("me", len(LONG), sentences_of, [LONG], tuple(Reading()))
        assert len(found[0]) == 2 * SMALL and not any(hog.done() for hog in hogs)
        for hog in hogs:
            hog.cancel()
        await asyncio.gather(*hogs, return_exceptions=True)

    ran(work)


def test_a_text_that_takes_too_much_memory_is_refused_and_a_lost_process_is_told() -> None:
    before = children()

    async def work(readers: Readers) -> None:
        body = b"[" + b'{"":{}},' * 2**22 + b"1]"
        with pytest.raises(DataError, match="memory"):
            await readers.call("me", len(body), json_values, body, 9)

        async def kill() -> None:
            while not (found := children() - before):
                await asyncio.sleep(0.01)
            os.kill(found.pop(), signal.SIGKILL)

        killing = asyncio.create_task(kill())
        with pytest.raises(Failed):
            await readers.call("me", len(SLOW), sentences_of, [SLOW], tuple(Reading()))
        await killing
        assert await readers.call("me", SMALL + 1, json_values, b"{}", 9) == {}
        [idle] = children() - before
        os.kill(idle, signal.SIGKILL)
        while idle in children():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # until the event loop knows it too
        assert await readers.call("me", SMALL + 1, json_values, b"{}", 9) == {}

    ran(work)


def test_work_in_slices_lets_others_go_on() -> None:
    seen = []

    async def work() -> None:
        async def other() -> None:
            for _ in range(3):
                seen.append("other")
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for number in in_slices(range(50)):
            time.sleep(0.0005)
            seen.append(number)
        await task

    asyncio.run(work())
    assert [each for each in seen if each != "other"] == list(range(50))
    assert seen.index("other") < 10 and seen[-1] == 49
