"""The files in deploy/: the services of systemd, the sites of nginx, and the container."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import crosshead.addons.serving.verbs  # noqa: F401  # registers `serve`
from crosshead.addons.serving.keys import Rates
from crosshead.addons.serving.requests import Settings, State
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.server import ServerConfig, make_server
from crosshead.addons.serving.stores import Metrics
from crosshead.cli.program import app
from tests.nginx import PROCESSES, configuration, needs_nginx

ROOT = Path(__file__).parent.parent
SERVICE = ROOT / "deploy" / "crosshead.service"
TEMPLATE = ROOT / "deploy" / "crosshead@.service"
NGINX = ROOT / "deploy" / "nginx.conf"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


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
    assert found["glossaries"] == Path("${STATE_DIRECTORY}/glossaries")


def test_the_services_of_several_processes_differ_in_port_workers_and_folder() -> None:
    one, several = (path.read_text().partition("[Unit]")[2] for path in (SERVICE, TEMPLATE))
    several = re.sub("^# (--workers:|A process) .*\n", "", several, flags=re.MULTILINE)
    for added in (" on port %i", " --port %i --workers 4", "-%i"):
        assert several.count(added) == 1
        several = several.replace(added, "")
    assert several == one

    [started] = lines(TEMPLATE, "ExecStart=")
    found = parsed(shlex.split(started.replace("%i", "5001"))[2:])
    assert (found["port"], found["workers"]) == (5001, 4)


@pytest.mark.parametrize("path", [SERVICE, TEMPLATE], ids=lambda path: path.name)
def test_the_service_waits_longer_than_the_server_drains(path: Path) -> None:
    [seconds] = lines(path, "TimeoutStopSec=")
    assert int(seconds) > ServerConfig.drain


@pytest.mark.parametrize("path", [SERVICE, TEMPLATE], ids=lambda path: path.name)
def test_a_reload_at_the_start_does_not_end_the_service(path: Path) -> None:
    # For systemd, an end by SIGHUP is no failure.
    assert lines(path, "Restart=") == ["on-failure"]
    assert lines(path, "RestartForceExitStatus=") == ["SIGHUP"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", [SERVICE, TEMPLATE], ids=lambda path: path.name)
def test_systemd_accepts_the_service(path: Path, tmp_path: Path) -> None:
    program = shutil.which("true")
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/crosshead/bin/crosshead", str(program)))
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


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint, of the extra `dev` on Linux")
@pytest.mark.parametrize(("added", "code"), [("", 0), ("RUN cd /tmp && pip install x\n", 1)])
def test_hadolint_accepts_the_container(added: str, code: int) -> None:
    checked = subprocess.run(
        [str(HADOLINT), "--no-color", "-"], input=DOCKERFILE.read_text() + added,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == code, checked.stdout
    assert ("Use WORKDIR to switch to a directory" in checked.stdout) == bool(added)


@pytest.mark.parametrize("path", [NGINX, PROCESSES], ids=lambda path: path.name)
def test_nginx_has_the_limits_of_the_server(path: Path) -> None:
    site, defaults = path.read_text(), parsed(["en-de=/bundles/en-de"])
    assert f"client_max_body_size {defaults['body']}m;" in site
    assert seconds(site, "proxy_read_timeout") > float(str(defaults["timeout"]))


def seconds(site: str, name: str) -> int:
    """The value of a setting of nginx in seconds."""
    [found] = re.findall(rf"^ *{name} (\d+)s;", site, re.MULTILINE)
    return int(found)


@pytest.mark.parametrize("path", [NGINX, PROCESSES], ids=lambda path: path.name)
def test_nginx_keeps_the_metrics_to_this_machine(path: Path) -> None:
    [inside] = re.findall(r"location = /metrics \{(.*?)\}", path.read_text(), re.DOTALL)
    allowed = re.findall(r"(allow|deny) (\S+);", inside)
    assert allowed == [("allow", "127.0.0.1"), ("allow", "::1"), ("deny", "all")]


def test_nginx_passes_requests_to_the_port_of_the_server() -> None:
    defaults = parsed(["en-de=/bundles/en-de"])
    passed = re.findall("proxy_pass (.*);", NGINX.read_text())
    assert set(passed) == {f"http://127.0.0.1:{defaults['port']}"}


def test_nginx_passes_requests_to_the_processes_that_the_commands_start() -> None:
    [command] = lines(TEMPLATE, "#   systemctl enable --now ")
    started = [name.removeprefix("crosshead@") for name in command.split()]
    assert re.findall(r"server 127\.0\.0\.1:(\d+) ", PROCESSES.read_text()) == started


def test_nginx_does_not_repeat_requests_that_missed_their_deadlines() -> None:
    limit = seconds(PROCESSES.read_text(), "proxy_next_upstream_timeout")
    assert limit < float(str(parsed(["en-de=/bundles/en-de"])["timeout"]))


def test_nginx_closes_idle_connections_before_the_server_does() -> None:
    scheduler = Scheduler()
    state = State(Settings(), Metrics(scheduler), Rates(0))
    config = make_server(state, scheduler, ServerConfig.drain).config
    scheduler.stop()
    assert seconds(PROCESSES.read_text(), "keepalive_timeout") < config.timeout_keep_alive


@needs_nginx
@pytest.mark.parametrize("path", [NGINX, PROCESSES], ids=lambda path: path.name)
def test_nginx_accepts_the_site(path: Path, tmp_path: Path) -> None:
    site = path.read_text().replace(":80;", ":8080;").replace("listen 80;", "listen 8080;")
    checked = subprocess.run(
        ["nginx", "-t", "-c", str(configuration(site, tmp_path))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
