import asyncio
import re
import resource
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving import stores
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.stores import Files, Metrics, Suggestions
from crosshead.errors import UserError
from tests.addons.serving.loopback import running


def added(suggestions: Suggestions, text: str, suggestion: str, client: str = "me") -> bool:
    return asyncio.run(suggestions.add(client, "en", "de", text, suggestion))


def test_suggestions_outlive_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for _ in range(2):
        assert added(Suggestions(path), "a\nb", "ä")
    line = '{"source": "en", "target": "de", "q": "a\\nb", "s": "ä"}\n'
    assert path.read_text("utf-8") == 2 * line


def test_a_file_of_suggestions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_BYTES", 150)
    suggestions = Suggestions(tmp_path / "s.jsonl")
    found = [added(suggestions, f"text {number}", "x") for number in range(5)]
    assert found == [True, True, False, False, False]
    assert (tmp_path / "s.jsonl").stat().st_size <= 150


LINE = '{"source": "en", "target": "de", "q": "a", "s": "x"}\n'


def test_a_line_that_a_crash_has_cut_off_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(LINE + LINE[:20])
    assert added(Suggestions(path), "b", "y")
    other = LINE.replace('"a"', '"b"').replace('"x"', '"y"')
    assert path.read_text() == f"{LINE}{LINE[:20]}\n{other}"


def test_a_line_that_a_full_disk_has_cut_off_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    suggestions = Suggestions(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            added(suggestions, "a", "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == LINE[:20]
    assert added(suggestions, "a", "x")
    assert path.read_text() == f"{LINE[:20]}\n{LINE}"


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        Suggestions(tmp_path / "missing" / "s.jsonl")


def test_a_client_fills_its_part_of_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_MOST_EACH", 150)
    suggestions = Suggestions(tmp_path / "s.jsonl")
    found = [added(suggestions, f"text {number}", "x") for number in range(5)]
    assert found == [True, True, False, False, False]
    assert added(suggestions, "text 4", "x", "you")


def test_files_are_found_by_their_names_and_the_largest_client_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Files()
    few = [files.add("few", "a.txt", b"1") for _ in range(2)]
    many = [files.add("many", "b.txt", bytes([number])) for number in range(200)]
    assert len({*few, *many}) == 202
    kept = [files.get(name) for name in many]
    assert all(map(files.get, few)) and sum(each is not None for each in kept) == 98
    assert kept[-1] is not None and (kept[-1].name, kept[-1].data) == ("b.txt", bytes([199]))
    monkeypatch.setattr(stores, "_MOST_BYTES", 5 * 2**20)
    large = files.add("few", "c.txt", b"x" * 5 * 2**20)
    assert files.get(large) is not None and files.get(many[-1]) is None


def test_files_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_SECONDS", 0.0)
    files = Files()
    assert files.get(files.add("me", "a.txt", b"")) is None


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
