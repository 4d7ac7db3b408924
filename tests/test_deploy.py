"""The files in deploy/: the service of systemd, the site of nginx, and the container."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from crosshead.cli.program import app
from crosshead.serving.server import ServerConfig

ROOT = Path(__file__).parent.parent
SERVICE = ROOT / "deploy" / "crosshead.service"
NGINX = ROOT / "deploy" / "nginx.conf"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def parsed(arguments: list[str]) -> dict[str, object]:
    """The parameters that `crosshead serve` reads from its arguments; wrong ones raise."""
    program: Any = typer.main.get_command(app)
    return dict(program.commands["serve"].make_context("serve", arguments).params)


def lines(path: Path, word: str) -> list[str]:
    """The rests of the lines of a file that begin with a word."""
    return [
        line.removeprefix(word) for line in path.read_text().splitlines() if line.startswith(word)
    ]


def test_the_service_runs_a_command_that_exists() -> None:
    [started] = lines(SERVICE, "ExecStart=")
    program, verb, *arguments = shlex.split(started)
    assert (Path(program).name, verb) == ("crosshead", "serve")
    found = parsed(arguments)
    assert found["bundles"] == ["en-de=/srv/crosshead/en-de"]
    assert found["host"] == "127.0.0.1"
    assert found["suggestions"] == Path("${STATE_DIRECTORY}/suggestions.jsonl")


def test_the_service_waits_longer_than_the_server_drains() -> None:
    [seconds] = lines(SERVICE, "TimeoutStopSec=")
    assert int(seconds) > ServerConfig.drain


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    program = shutil.which("true")
    copy = tmp_path / "crosshead.service"
    copy.write_text(SERVICE.read_text().replace("/opt/crosshead/bin/crosshead", str(program)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_container_runs_a_command_that_exists() -> None:
    [started] = lines(DOCKERFILE, "ENTRYPOINT ")
    program, verb, *arguments = json.loads(started)
    assert (program, verb) == ("crosshead", "serve")
    found = parsed([*arguments, "en-de=/bundles/en-de"])
    assert found["host"] == "0.0.0.0"
    assert lines(DOCKERFILE, "EXPOSE ") == [str(found["port"])]
    assert f"127.0.0.1:{found['port']}/readyz" in DOCKERFILE.read_text()


def test_the_container_copies_the_files_that_its_installation_reads() -> None:
    copied = {name for line in lines(DOCKERFILE, "COPY ") for name in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    project = (ROOT / "pyproject.toml").read_text()
    named = [*re.findall(r'^(?:readme|path) = "([^"]+)"', project, re.M), "LICENSE"]
    assert {Path(name).parts[0] for name in named} <= copied
    assert {"pyproject.toml", "constraints.txt", "crosshead"} <= copied


def test_nginx_passes_requests_to_the_port_of_the_server_with_its_limits() -> None:
    site = NGINX.read_text()
    defaults = parsed(["en-de=/bundles/en-de"])
    assert f"proxy_pass http://127.0.0.1:{defaults['port']};" in site
    assert f"client_max_body_size {defaults['body']}m;" in site
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", site)
    assert int(seconds) > float(str(defaults["timeout"]))


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_nginx_accepts_the_site(tmp_path: Path) -> None:
    whole = tmp_path / "nginx.conf"
    paths = f"pid {tmp_path}/pid; error_log {tmp_path}/errors;"
    site = NGINX.read_text().replace(":80;", ":8080;").replace("listen 80;", "listen 8080;")
    whole.write_text(f"{paths} events {{}} http {{ access_log off; {site} }}")
    checked = subprocess.run(
        ["nginx", "-t", "-c", str(whole)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
