"""Functions that read bodies and documents, and the processes that run them."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crosshead.addons.serving.errors import Failed
from crosshead.addons.serving.reading import (
    DETECTED,
    SMALL,
    Readers,
    Reading,
    form_values,
    in_slices,
    json_values,
    sample_of,
    sentences_of,
    with_translations,
)
from crosshead.errors import DataError
from crosshead.text.documents.document import rebuilt, texts_of
from crosshead.text.marks import without_tags

LONG = "A dog. Two \udc80 dogs.\n" * SMALL
SLOW = "a\n" * 2_000_000


def test_a_language_is_detected_by_the_beginning_of_the_sentences() -> None:
    assert sample_of(["  a\nb", "c"], Reading()) == "a\nb\nc"
    assert sample_of(["a" * 1500, "b" * 1500, "c"], Reading()) == f"{'a' * 1500}\n{'b' * 499}"
    assert len(sample_of(["a" * 10**6], Reading())) == DETECTED
    page = "<p class='x'>caf&eacute;</p>\n<script>let x;</script><p>bar</p>"
    assert sample_of([page], Reading("html")) == "café\nbar"


@pytest.mark.parametrize(
    "body",
    ["a=1&b=&c&&a=2", "q=%41%zz%c3%a4+%2B%", "a=b=c;d", "%71=ä", "a=%ff", "=1", "&", ""],
)
def test_a_form_is_read_as_python_reads_it(body: str) -> None:
    expected = urllib.parse.parse_qsl(body, keep_blank_values=True)
    assert form_values(body.encode(), 100) == expected


def test_the_fields_of_a_form_are_counted() -> None:
    assert form_values(b"a=1&b=2", 2) == [("a", "1"), ("b", "2")]
    with pytest.raises(DataError, match="number of fields is 1"):
        form_values(b"a=1&b=2", 1)


def test_a_form_of_escapes_takes_little_more_memory_than_its_text() -> None:
    program = (
        "import resource, sys; from crosshead.addons.serving.reading import form_values\n"
        "body = b'q=' + b'%41' * 2**20; resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))\n"
        "assert form_values(body, 9) == [('q', 'A' * 2**20)]"
    ).replace("MOST", str(300 * 2**20))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_values_of_json_are_flat() -> None:
    body = b'{"q": ["a", 1, null], "n": 1.5, "x": {"a": 1}, "y": [[]], "t": true}'
    assert json_values(body, 5) == {"q": [{}], "n": 1.5, "x": {}, "y": [{}], "t": True}
    assert json_values(b'{"q": ["a", "b"], "x": ["a", "b"]}', 2) == {
        "q": ["a", "b"],
        "x": ["a", "b"],
    }
    assert json_values(b'{"q": ["a", "b", "c"]}', 1) == {"q": ["a", "b", "c"]}
    assert json_values(b'{"x": ["a", "b", "c"]}', 1) == {"x": ["a"]}
    glossary = b'{"glossary": {"a": "b"}, "x": {"a": "b"}}'
    assert json_values(glossary, 5) == {"glossary": {"a": "b"}, "x": {}}
    assert json_values(b'{"glossary": {"a": ["b"]}}', 5) == {"glossary": [{}]}
    with pytest.raises(DataError, match="number of fields is 4"):
        json_values(body, 4)
    for wrong in (b"[]", b"", b"{", b"[" * 10_000, b'{"q": "\\ud83d"}'):
        assert json_values(wrong, 9) is None


def test_a_text_is_read_and_written() -> None:
    texts = ["<p>One. <b>Two</b></p>", ""]
    found = sentences_of(texts, Reading("html"))
    assert [list(map(without_tags, each)) for each in found] == [["One.", "Two"], []]
    found = with_translations(texts, Reading("html"), [[["1", "2"], ["1", "2"], ["3", "4"]], [[]]])
    assert found == [["<p>1 <b>2</b></p>", "<p>3 <b>4</b></p>"], [""]]
    assert sentences_of(["A b. C\nd."], Reading("flowing", whole=True)) == [["A b. C d."]]
    assert sentences_of(["1\n2.\nc"], Reading()) == [["c"]]


@pytest.mark.parametrize("text", ["12.5 %", "\U0001f642\U0001f642"])
def test_what_has_no_words_stays(text: str) -> None:
    parts = Reading("text").document(f"{text}\nA dog.\n").parts
    assert texts_of(parts) == ["A dog."]
    assert rebuilt(parts, ["Ein Hund."]) == f"{text}\nEin Hund.\n"
    html = Reading("html").document("<p>1 &lt; 2</p>A dog.").parts
    assert rebuilt(html, ["Ein Hund."]) == "<p>1 &lt; 2</p>Ein Hund."


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
