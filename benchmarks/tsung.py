"""Tsung, a load generator: requests of an open or a closed loop, and the answers that it logs.

Tsung 1.7 is Debian's package `tsung`. In its open loop, users come at random times (a Poisson
process), whether or not earlier ones have their answer. Each sends one request on a connection of
its own. Each request takes the next line of a file as its body.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

PRIORITY = -10
"""The priority of the load generator where the system allows it. Otherwise a busy server on the
same cores would delay its clock, and so lengthen every time."""

_DRAIN = 30
"""The longest time in which Tsung waits for answers after the last arrival, in seconds."""

_LONGEST = 240
"""The longest time of a closed loop, in seconds."""

_QUIET = {"ERL_FLAGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}
"""Erlang's threads sleep while they have nothing to do, and leave the cores to the server."""


@dataclass(frozen=True)
class Phase:
    """Arrivals at one rate.

    Attributes:
        name: Its name, which its answers have.
        rate: The mean number of arrivals a second.
        seconds: How long they come.
    """

    name: str
    rate: float
    seconds: int


@dataclass(frozen=True)
class Answer:
    """An answer as Tsung logs it.

    Attributes:
        name: The phase of its request.
        client: The number of its client. In an open loop every request has a client of its own.
        begin: The time when the request was sent, in seconds since 1970.
        seconds: The seconds until the whole answer was there.
        status: The HTTP status, or 0 without one.
    """

    name: str
    client: int
    begin: float
    seconds: float
    status: int

    @property
    def end(self) -> float:
        """The time when the whole answer was there, in seconds since 1970."""
        return self.begin + self.seconds


@dataclass(frozen=True)
class Found:
    """The findings of Tsung.

    Attributes:
        answers: The answers that Tsung has logged, in the order in which they came.
        missing: The number of requests without an answer.
        own_seconds: The seconds of a core that Tsung itself took.
    """

    answers: Sequence[Answer]
    missing: int
    own_seconds: float


def check_tsung() -> None:
    """End the program if Tsung is not installed."""
    if shutil.which("tsung") is None:
        raise SystemExit("this benchmark needs the load generator Tsung: apt-get install tsung")


def open_loop(address: str, bodies: Sequence[str], phases: Sequence[Phase]) -> Found:
    """Send requests at random times, whether or not earlier ones are answered.

    Args:
        address: The address of the server.
        bodies: The bodies, one a line.
        phases: The phases, one after the other. What is left of one disturbs the next, so the
            largest rate should come last.
    """
    arrivals = "".join(
        f'<arrivalphase phase="{number}" duration="{phase.seconds}" unit="second">'
        + "".join(
            f'<session_setup name="{other.name}" probability="{100 * (other is phase)}"/>'
            for other in phases
        )
        + f'<users interarrival="{1 / phase.rate:.6f}" unit="second"/></arrivalphase>'
        for number, phase in enumerate(phases, 1)
    )
    sessions = "".join(
        f'<session name="{phase.name}" probability="{100 * (phase is phases[0])}" type="ts_http">'
        f"{_request(phase.name)}</session>"
        for phase in phases
    )
    longest = sum(phase.seconds for phase in phases) + _DRAIN
    return _run(address, bodies, arrivals, sessions, None, longest)


def closed_loop(address: str, bodies: Sequence[str], clients: int, each: int) -> Found:
    """Let clients send one request after the other, each on a connection that stays open.

    Args:
        address: The address of the server.
        bodies: The bodies, one a line.
        clients: The number of clients.
        each: The number of requests of each client. They end after a number and not after a time,
            because Tsung loses what it has not written when its time is up.
    """
    name = f"clients-{clients}"
    arrivals = (
        '<arrivalphase phase="1" duration="10" unit="second">'
        f'<users maxnumber="{clients}" interarrival="0.002" unit="second"/></arrivalphase>'
    )
    session = (
        f'<session name="{name}" probability="100" type="ts_http">'
        f'<for from="1" to="{each}" incr="1" var="i">{_request(name)}</for></session>'
    )
    return _run(address, bodies, arrivals, session, clients * each, _LONGEST)


def rate_of(answers: Sequence[Answer]) -> float:
    """Return the answers a second with status 200 of a closed loop, while all its clients work.

    Args:
        answers: The answers.
    """
    ends: dict[int, float] = {}
    for each in answers:
        ends[each.client] = max(each.end, ends.get(each.client, 0.0))
    begin, end = min(each.begin for each in answers), min(ends.values())
    return sum(each.status == 200 and each.end <= end for each in answers) / (end - begin)


def configuration(host: str, port: int, bodies: Path, load: str, sessions: str, most: int) -> str:
    """Return a configuration of Tsung.

    Args:
        host: The host of the server.
        port: Its port.
        bodies: The file of bodies.
        load: The arrival phases, as XML.
        sessions: The sessions, as XML.
        most: The seconds after which Tsung ends.
    """
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">\n'
        '<tsung loglevel="notice" dumptraffic="protocol" version="1.0">\n'
        '<clients><client host="localhost" use_controller_vm="true" maxusers="15000"/></clients>\n'
        f'<servers><server host="{host}" port="{port}" type="tcp"/></servers>\n'
        f'<load duration="{most}" unit="second">{load}</load>\n'
        f'<options><option name="file_server" id="bodies" value={quoteattr(str(bodies))}/>'
        f"</options>\n<sessions>{sessions}</sessions>\n</tsung>\n"
    )


def answers_of(dump: str) -> list[Answer]:
    """Return the answers of a file `tsung.dump`.

    Args:
        dump: Its text. A last line that is not whole is left out.
    """
    found = []
    for line in dump.splitlines(keepends=True):
        if line.startswith("#") or not line.endswith("\n"):
            continue
        end, _, client, _, _, _, status, _, milliseconds, *_, name = line.strip().split(";")
        seconds = float(milliseconds) / 1000
        code = int(status) if status.isdecimal() else 0
        found.append(Answer(name, int(client), float(end) - seconds, seconds, code))
    return found


def totals_of(log: str) -> tuple[int, int]:
    """Return the number of users that have started, and of answers, by a file `tsung.log`.

    Tsung counts every answer here, but does not always write the last ones to `tsung.dump`.

    Args:
        log: Its text.
    """
    counts = {}
    for name, total in re.findall(r"^stats: (users_count|\d{3}) \d+ (\d+)$", log, re.MULTILINE):
        counts[name] = int(total)
    started = counts.pop("users_count", 0)
    return started, sum(counts.values())


def _request(name: str) -> str:
    return (
        '<setdynvars sourcetype="file" fileid="bodies" delimiter="&#9;" order="iter">'
        f'<var name="body"/></setdynvars><request subst="true" tag="{name}">'
        '<http url="/translate" method="POST" version="1.1" content_type="application/json" '
        'contents="%%_body%%"/></request>'
    )


def _run(
    address: str, bodies: Sequence[str], load: str, sessions: str, expected: int | None, most: int
) -> Found:
    """Run Tsung once, in a folder that is removed.

    `expected` is the number of requests. In an open loop, it is that of the users.
    """
    if any(sign in body for body in bodies for sign in ("\t", "\n", "%%")):
        raise ValueError("a body has a tab, a line break or %%, which Tsung reads as its own")
    place = urlsplit(address)
    assert place.hostname is not None and place.port is not None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "bodies").write_text("\n".join(bodies) + "\n")
        text = configuration(place.hostname, place.port, folder / "bodies", load, sessions, most)
        (folder / "tsung.xml").write_text(text)
        before = os.times()
        done = subprocess.run(
            ["tsung", "-f", folder / "tsung.xml", "-l", folder / "log", "-n", "start"],
            env={**os.environ, **_QUIET, "HOME": scratch},
            capture_output=True,
            text=True,
            preexec_fn=_hurry,
            timeout=most + 60,
        )
        after = os.times()
        dumps = list((folder / "log").glob("*/tsung.dump"))
        if not dumps:
            raise SystemExit(f"Tsung did not start: {done.stdout} {done.stderr}")
        answers = answers_of(dumps[0].read_text())
        started, answered = totals_of((dumps[0].parent / "tsung.log").read_text())
    own = sum(after[2:4]) - sum(before[2:4])
    return Found(answers, max(0, (expected or started) - answered), own)


def _hurry() -> None:
    with contextlib.suppress(PermissionError):
        os.nice(PRIORITY)
