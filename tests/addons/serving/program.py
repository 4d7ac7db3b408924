"""`crosshead serve` as a process of its own."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request

from tests.conftest import ROOT


class Program:
    """`crosshead serve` as a process; port 0 takes a free one."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crosshead", "serve", *arguments, "--port", str(port)],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.lines: list[str] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines.extend(lines)

    def wait_for(self, text: str) -> str:
        end = time.monotonic() + 90
        while True:
            for line in list(self.lines):
                if text in line:
                    return line
            assert time.monotonic() < end and self.process.poll() is None, self.lines
            time.sleep(0.01)

    def translate(self, address: str, text: str) -> str:
        values = {"q": text, "source": "en", "target": "de"}
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/translate", json.dumps(values).encode(), kind)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["translatedText"])

    def address(self) -> str:
        """The address of the server, once it is ready."""
        return self.wait_for("ready on ").split("ready on ")[1].split()[0]

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
