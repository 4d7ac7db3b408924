import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from crosshead.cli import run
from crosshead.inspection import computing
from tests.cli.tools import BUNDLE, Refused, output_of


def test_a_saved_page_holds_the_model_or_the_trace_of_each_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.html"
    second = tmp_path / "second"
    shutil.copytree(BUNDLE, second)
    command = ["look", BUNDLE, second, "--text", "one two", "--save", out]
    assert re.search(rf"{out} \(it computes, \d\.\d MB\)", output_of(command, capfd))
    assert len(saved(out)["computing"]) == 2 and len(saved(out)["answers"]) == 4
    monkeypatch.setattr(computing, "LARGEST", 0)
    assert f"{out} (recorded, " in output_of(command, capfd)
    asked = [each["request"]["ask"] for each in saved(out)["answers"]]
    assert asked.count("trace") == 2 and sorted(tmp_path.iterdir()) == [out, second]


def saved(page: Path) -> dict[str, Any]:
    """What a saved page holds."""
    [data] = re.findall(r'id="recorded">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = json.loads(data)
    return found


def test_wrong_use_is_refused(tmp_path: Path, refused: Refused) -> None:
    assert "--text" in refused("look", BUNDLE, "--save", tmp_path / "a.html")
    assert "no such directory" in refused("look", tmp_path / "b")
    assert "end in .html" in refused("look", BUNDLE, "--text", "a", "--save", tmp_path / "a.pdf")
    assert "is given twice" in refused("look", BUNDLE, BUNDLE)
    assert "is a file of the model" in refused(
        "look", BUNDLE, "--text", "a", "--save", BUNDLE / "config.json"
    )


def test_the_page_is_served_until_ctrl_c() -> None:
    program = [sys.executable, "-m", "crosshead", "look", str(BUNDLE), "--text", "one"]
    environment = os.environ | {"BROWSER": "true"}  # a program that opens nothing
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        [address] = re.findall(r"http://[\d.:]+/", process.stderr.readline())
        with urllib.request.urlopen(address, timeout=20) as page:
            assert b"Look inside" in page.read()
        busy = address.split(":")[-1].strip("/")
        assert run(["look", str(BUNDLE), "--port", busy]) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
