"""The verb `serve`: wrong settings are refused before a bundle is loaded."""

import hashlib
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.cli import run
from tests.conftest import ROOT

BUNDLE = str(ROOT / "tests" / "fixtures" / "bundle-format-1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "--port"),
        (["--batch", "0"], "--batch"),
        (["--keys", "missing.txt"], "missing.txt: cannot be read"),
        (["--suggestions", "missing/s.jsonl"], "missing/s.jsonl: cannot be written"),
        (["--glossaries", "/dev/null"], "/dev/null: cannot make the directory"),
        (["--device", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_setting_is_one_line(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", BUNDLE, "--port", "0", *arguments]) == 2
    error = capfd.readouterr().err
    assert error.startswith("crosshead: error: ") and message in error and error.count("\n") == 1


def test_the_settings_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import crosshead.addons.serving.server as server

    (tmp_path / "keys").write_text(hashlib.sha256(b"k").hexdigest() + " me 3\n")
    given = []
    monkeypatch.setattr(server, "run_server", lambda config, say: given.append(config))
    arguments = [
        "serve", "a", "en-de=b", "--port", "81", "--workers", "3", "--batch", "5", "--memory", "7",
        "--waiting", "9", "--timeout", "2", "--characters", "11", "--texts", "13",
        "--body", "2", "--rate", "17", "--keys", str(tmp_path / "keys"), "--glossaries", "terms",
    ]  # fmt: skip
    assert run(arguments) == 0
    [config] = given
    assert (config.places, config.host, config.port) == (["a", "en-de=b"], "127.0.0.1", 81)
    assert (config.workers, config.per_minute, config.suggestions) == (3, 17, None)
    assert config.glossaries == Path("terms")
    limits, settings = config.limits, config.settings
    assert (limits.sentences, limits.memory, limits.waiting) == (5, 7 * 2**20, 9)
    assert (settings.characters, settings.texts) == (11, 13)
    assert (settings.body, settings.seconds) == (2 * 2**20, 2.0)
    assert config.keys.find("k").name == "me"


def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "crosshead.addons.serving.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve", BUNDLE]) == 2
    assert "needs uvicorn" in capfd.readouterr().err


def test_sighup_is_ignored_from_the_first_import_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    received: list[int] = []

    def hang_up(name: str, *rest: object) -> None:
        asked.append(name)
        signal.raise_signal(signal.SIGHUP)
        raise ModuleNotFoundError(name="uvicorn")

    server = "crosshead.addons.serving.server"
    monkeypatch.delitem(sys.modules, server, raising=False)
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=hang_up), *sys.meta_path])
    before = signal.signal(signal.SIGHUP, lambda number, frame: received.append(number))
    try:
        assert run(["serve", BUNDLE]) == 2
        assert asked == [server] and received == []
        signal.raise_signal(signal.SIGHUP)  # afterwards, as before
        assert received == [signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "needs uvicorn" in capfd.readouterr().err
