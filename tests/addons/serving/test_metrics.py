"""The counts over real HTTP."""

import re

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.metrics import Metrics
from crosshead.addons.serving.scheduler import Scheduler
from tests.addons.serving.loopback import running

PAIR = {"source": "en", "target": "de"}


def test_the_state_of_the_scheduler_is_read_when_asked() -> None:
    scheduler = Scheduler()
    metrics = Metrics(scheduler)
    scheduler.steps = 7
    text = metrics.text().decode()
    assert (
        "# TYPE crosshead_decoding_steps_total counter\ncrosshead_decoding_steps_total 7.0\n"
        in text
    )
    scheduler.stop(10)


@pytest.mark.slow
def test_the_counts_are_those_of_the_client_and_hold_no_texts(directory: Directory) -> None:
    with running(directory) as client:
        for _ in range(3):
            client.post("/translate", PAIR | {"q": "A secret dog. A cat."})
        client.post("/translate", {})
        client.get("/download_file/whatever")
        client.get("/made/up/path")
        text = client.get("/metrics").body.decode()
    counts = dict(re.findall(r"^(crosshead_\w+(?:\{[^}]*\})?) ([\d.e+-]+)$", text, re.M))
    assert counts['crosshead_requests_total{path="/translate",status="200"}'] == "3.0"
    assert counts['crosshead_requests_total{path="/translate",status="400"}'] == "1.0"
    assert counts['crosshead_requests_total{path="other",status="404"}'] == "1.0"
    assert counts["crosshead_sentences_total"] == "6.0"
    assert counts["crosshead_characters_total"] == "60.0"
    assert not re.search("secret|127.0.0.1|whatever|made", text)
