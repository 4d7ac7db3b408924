"""Requests to translate over real HTTP: their sizes, and detection beside the event loop."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.languages import Detection
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.scheduler import Limits
from tests.addons.serving.loopback import Client, running

TEXT = "Two dogs run."
REQUESTS = {
    "/detect": {"q": TEXT},
    "/translate": {"q": TEXT, "source": "auto", "target": "de"},
    "/v1/translate": {"text": TEXT, "target": "de"},
    "/v2/translate": {"text": [TEXT], "target_lang": "DE"},
}


def test_detection_does_not_hold_up_other_requests(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, entered = 0, threading.Event()

    def slow(text: str) -> list[Detection]:
        nonlocal count
        count += 1
        entered.set()
        time.sleep(0.002)
        return [Detection("de", 100.0)]

    values = {"text": ["1 a"] * 200, "target_lang": "DE"}
    with running(directory) as client, ThreadPoolExecutor(1) as pool:
        _detect_by(client, slow, monkeypatch)
        found = pool.submit(client.post, "/v2/translate", values)
        assert entered.wait(30)
        assert client.get("/livez").status == 200
        assert count < 200
        assert found.result().status == 200 and count == 200


@pytest.mark.parametrize(("path", "name"), [
    ("/translate", "q"), ("/v1/translate", "text"), ("/v2/translate", "text"),
])  # fmt: skip
def test_a_text_in_a_language_that_is_not_served_is_refused(
    client: Client, path: str, name: str
) -> None:
    spanish = ["Los perros corren por la calle."]
    found = client.post(path, REQUESTS[path] | {name: spanish})
    message = (
        "the text is in Spanish (es), which is not served; if that is wrong, name its language"
    )
    assert found.status == 400 and message in found.body.decode()


def _detect_by(
    client: Client, detect: Callable[[str], list[Detection]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.state.service is not None
    monkeypatch.setattr(client.state.service.detector, "detect", detect)


def test_detection_ends_at_the_deadline(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def slow(text: str) -> list[Detection]:
        read.append(text)
        time.sleep(0.005)
        return [Detection("en", 100.0)]

    with running(directory, Settings(seconds=0.1, texts=0)) as client:
        _detect_by(client, slow, monkeypatch)
        found = client.post("/v2/translate", {"text": ["A dog."] * 5000, "target_lang": "DE"})
        assert found.status == 503 and found.headers["Retry-After"]
        assert len(read) < 500


def test_nothing_is_detected_for_a_request_without_room(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    with running(directory, limits=Limits(waiting=0)) as client:
        _detect_by(client, lambda text: read.append(text) or [], monkeypatch)
        for path in ("/translate", "/v1/translate", "/v2/translate"):
            assert client.post(path, REQUESTS[path]).status == 503
    assert read == []


def test_the_texts_of_a_request_are_limited_by_default(client: Client) -> None:
    most = client.get("/v1/limits").json["texts"]
    assert most == Settings().texts == 1000
    many = ["1"] * (most + 1)
    for path, values, status in (
        ("/translate", {"q": many, "source": "en", "target": "en"}, 400),
        ("/v1/translate", {"text": many, "source": "en", "target": "en"}, 422),
        ("/v2/translate", {"text": many, "source_lang": "DE", "target_lang": "DE"}, 400),
    ):
        assert client.post(path, values).status == status
        shorter = {name: each[1:] if each is many else each for name, each in values.items()}
        assert client.post(path, shorter).status == 200
