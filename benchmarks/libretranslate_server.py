"""LibreTranslate as a process that reaches no network, with a model that crosshead exported."""

import contextlib
import os
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from crosshead.system.processor import saturates_int8

_START_SECONDS = 180.0

_WSGI = """\
import sys

sys.argv = ["--wsgi", *{options!r}]
from libretranslate.main import main

application = main()
"""
"""The module that Gunicorn imports; LibreTranslate takes the name of its program as the sign."""

_INSTALL = """\
import sys
import argostranslate.package

argostranslate.package.install_from_path(sys.argv[1])
"""

_VERSIONS = """\
from importlib.metadata import version

names = ("libretranslate", "argos-translate-lt", "ctranslate2", "waitress", "gunicorn")
print(", ".join(f"{name} {version(name)}" for name in names))
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with LibreTranslate and Gunicorn, and a folder for its files.

    Attributes:
        environment: The virtual environment.
        folder: The folder, which becomes the home of the processes.
        languages: The codes of the languages of the model.
        beam: The beam of the search.
    """

    environment: Path
    folder: Path
    languages: tuple[str, str]
    beam: int

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of every process."""
        # The index of packages is an empty file: LibreTranslate asks for it when it has fewer than
        # two packages, and otherwise waits for the network.
        index = self.folder / "index"
        index.mkdir(parents=True, exist_ok=True)
        (index / "index.json").write_text("[]")
        (self.folder / "packages").mkdir(exist_ok=True)
        own = {
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "ARGOS_PACKAGES_DIR": str(self.folder / "packages"),
            "ARGOS_PACKAGE_INDEX": f"{index.as_uri()}/",
            "ARGOS_BEAM_SIZE": str(self.beam),
        }
        if saturates_int8():  # as crosshead chooses CTranslate2's library
            own["CT2_USE_MKL"] = "1"
        foreign = ("PYTHONPATH", "OMP_NUM_THREADS")
        return {name: value for name, value in os.environ.items() if name not in foreign} | own

    def install(self, package: Path) -> None:
        """Install a package of Argos Translate.

        Args:
            package: The file `.argosmodel`.
        """
        python = self.environment / "bin" / "python"
        command = [str(python), "-W", "ignore", "-c", _INSTALL, str(package.resolve())]
        subprocess.run(command, env=self.variables, check=True)

    def versions(self) -> str:
        """Return the versions of LibreTranslate and of what it runs."""
        command = [str(self.environment / "bin" / "python"), "-c", _VERSIONS]
        return subprocess.run(
            command, env=self.variables, check=True, capture_output=True, text=True
        ).stdout.strip()


class LibreTranslate:
    """LibreTranslate as a process, on a free port of 127.0.0.1. Ends with the `with` block.

    Args:
        installation: Its virtual environment and folder.
        server: `waitress`, which LibreTranslate starts by itself, or `gunicorn`.
        workers: The number of processes (Gunicorn).
        threads: The number of threads that answer requests, of each process.
        inter: The number of sentences that each process translates at the same time.
        intra: The number of threads that translate a sentence; 0 leaves it to CTranslate2.
    """

    def __init__(
        self,
        installation: Installation,
        server: str,
        workers: int,
        threads: int,
        inter: int,
        intra: int,
    ) -> None:
        port = _free_port()
        self.address = f"http://127.0.0.1:{port}"
        programs = installation.environment / "bin"
        options = ["--load-only", ",".join(installation.languages), "--disable-web-ui"]
        place = ["--host", "127.0.0.1", "--port", str(port), "--threads", str(threads)]
        command = [str(programs / "libretranslate"), *place, *options]
        if server == "gunicorn":
            (installation.folder / "serve_libretranslate.py").write_text(
                _WSGI.format(options=options)
            )
            command = [
                str(programs / "gunicorn"), "--bind", f"127.0.0.1:{port}",
                "--workers", str(workers), "--threads", str(threads), "--keep-alive", "30",
                "--timeout", "120", "serve_libretranslate:application",
            ]  # fmt: skip
        own = {"ARGOS_INTER_THREADS": str(inter), "ARGOS_INTRA_THREADS": str(intra)}
        # Argos Translate writes a few lines a request, as it does by default.
        self._log = (installation.folder / "server.log").open("w")
        self.process = subprocess.Popen(
            command,
            cwd=installation.folder,
            env=installation.variables | own,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._wait(_START_SECONDS)

    def __enter__(self) -> "LibreTranslate":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _wait(self, seconds: float) -> None:
        """Wait until it answers, or end the program."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
                return
            time.sleep(0.2)
        self.stop()
        last = "".join(Path(self._log.name).read_text(errors="replace").splitlines(True)[-10:])
        raise SystemExit(f"LibreTranslate did not start; the end of {self._log.name}:\n{last}")

    def stop(self) -> int:
        """End the server, and return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._log.close()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
