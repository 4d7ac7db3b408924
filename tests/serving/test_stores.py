from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.serving import stores
from crosshead.serving.stores import Files, Suggestions


def test_suggestions_outlive_the_server_and_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for _ in range(2):
        assert Suggestions(path).add("en", "de", "a\nb", "ä")
    assert path.read_text("utf-8") == '{"source": "en", "target": "de", "q": "a\\nb", "s": "ä"}\n'


def test_a_file_of_suggestions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_BYTES", 150)
    suggestions = Suggestions(tmp_path / "s.jsonl")
    found = [suggestions.add("en", "de", f"text {number}", "x") for number in range(5)]
    assert found == [True, True, False, False, False]
    assert (tmp_path / "s.jsonl").stat().st_size <= 150


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        Suggestions(tmp_path / "missing" / "s.jsonl")


def test_files_are_found_by_their_names_and_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_FILES", 2)
    files = Files()
    names = [files.add("a.txt", bytes([number])) for number in range(3)]
    assert len(set(names)) == 3 and files.get(names[0]) is None
    found = files.get(names[2])
    assert found is not None and (found.name, found.data) == ("a.txt", b"\x02")


def test_files_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_SECONDS", 0.0)
    files = Files()
    assert files.get(files.add("a.txt", b"")) is None
