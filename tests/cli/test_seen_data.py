"""Notes about test data that training has used."""

import hashlib
from pathlib import Path

import pytest

from crosshead.cli.seen_data import on_card, say_if_seen


def test_a_file_on_the_card_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("seen.jsonl", "new.jsonl"):
        (tmp_path / name).write_text(name)
    seen = hashlib.sha256(b"seen.jsonl").hexdigest()
    (tmp_path / "README.md").write_text(f"| file | SHA-256 |\n| `a.jsonl` | `{seen}` |\n")
    assert on_card(tmp_path, seen) and not on_card(tmp_path, "0" * 64)
    say_if_seen(tmp_path, [str(tmp_path / name) for name in ("seen.jsonl", "new.jsonl")])
    [line] = capsys.readouterr().err.splitlines()
    assert "seen.jsonl: the training of this model used these data" in line


def test_a_bundle_without_a_card_says_nothing(tmp_path: Path) -> None:
    assert not on_card(tmp_path, "0" * 64)
