"""The process of the server: its socket, its start, its signals and its end."""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from crosshead.errors import UserError
from crosshead.pipelines.translator import Translator
from crosshead.serving.app import make_app
from crosshead.serving.directory import Engines, ServeError, load_directory
from crosshead.serving.keys import Keys, Rates
from crosshead.serving.metrics import Metrics
from crosshead.serving.model_engine import model_engines
from crosshead.serving.requests import Settings, State
from crosshead.serving.scheduler import Limits, Scheduler
from crosshead.serving.service import Service
from crosshead.serving.stores import Suggestions

_HEADER_SECONDS = 10.0
"""The time in which the headers of a request must have arrived."""


@dataclass(frozen=True)
class ServerConfig:
    """The settings of a server.

    Attributes:
        places: The bundles, each as a path or as `en-de=PATH`.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        workers: The number of threads that decode.
        device: The device of the models.
        engines: Returns what makes the engines of a translator.
        limits: The limits of the scheduler.
        settings: The limits of requests.
        per_minute: The largest number of requests a minute of a client; 0 is no limit.
        keys: The keys, or None if everybody may ask.
        suggestions: The file of suggestions, or None.
        drain: The seconds that requests under way have when the server ends.
    """

    places: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 5000
    workers: int = 1
    device: str = "auto"
    engines: Callable[[Translator], Engines] = model_engines
    limits: Limits = field(default_factory=Limits)
    settings: Settings = field(default_factory=Settings)
    per_minute: int = 0
    keys: Keys | None = None
    suggestions: Path | None = None
    drain: float = 10.0


class _Protocol(H11Protocol):
    """HTTP that closes connections whose headers do not arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        self._stop_waiting()
        super().data_received(data)
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server that leaves signals to `_Process`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(state: State, scheduler: Scheduler, drain: float) -> uvicorn.Server:
    """Return the HTTP server of a state. It handles no signals.

    Args:
        state: The state of the server.
        scheduler: The scheduler.
        drain: The seconds that requests under way have when the server ends.
    """
    return _Server(
        uvicorn.Config(
            make_app(state, scheduler),
            http=_Protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(drain),
        )
    )


def run_server(config: ServerConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, and answer the requests that are under way.

    SIGHUP loads the bundles again. Requests under way finish with the old ones.

    Args:
        config: The settings.
        say: Called with lines about progress.

    Raises:
        ServeError: If the port is in use, or the bundles cannot be served together.
        BundleError: If a bundle is missing or does not translate text.
    """
    listening = bound_socket(config.host, config.port)
    scheduler = Scheduler(config.workers, config.limits)
    try:
        suggestions = Suggestions(config.suggestions) if config.suggestions else None
        asyncio.run(_Process(config, scheduler, suggestions, say).run(listening))
    finally:
        listening.close()
        scheduler.stop(config.drain)


class _Process:
    """The server while it runs."""

    def __init__(
        self,
        config: ServerConfig,
        scheduler: Scheduler,
        suggestions: Suggestions | None,
        say: Callable[[str], None],
    ) -> None:
        self.config, self.scheduler, self.say = config, scheduler, say
        rates = Rates(config.per_minute)
        self.state = State(config.settings, Metrics(scheduler), rates, config.keys, suggestions)
        self.server = make_server(self.state, scheduler, config.drain)
        self._reloading: asyncio.Task[None] | None = None

    async def run(self, listening: socket.socket) -> None:
        """Serve until a signal or an error while loading."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        serving = asyncio.create_task(self.server.serve([listening]))
        try:
            service = self.state.service = await asyncio.to_thread(self._load)
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            pairs = ", ".join(f"{source}-{target}" for source, target in service.directory.pairs)
            self.say(f"ready on http://{shown}:{port} ({pairs})")
        except UserError:
            self.server.should_exit = True
            await serving
            raise
        await serving

    def _load(self) -> Service:
        directory = load_directory(
            self.config.places, self.say, self.config.device, self.config.engines
        )
        return Service(self.scheduler, directory)

    def _end(self) -> None:
        if not self.server.should_exit:
            self.say("stopping: answering the requests under way")
        self.server.should_exit = True

    def _reload(self) -> None:
        if self.state.service is not None and (self._reloading is None or self._reloading.done()):
            self._reloading = asyncio.create_task(self._load_again())

    async def _load_again(self) -> None:
        try:
            self.state.service = await asyncio.to_thread(self._load)
        except UserError as error:
            self.say(f"the bundles stay as they were: {error}")
            return
        self.say("the bundles are loaded again")


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Args:
        host: The address, as a number or a name.
        port: The port; 0 takes a free one.

    Raises:
        ServeError: If the port is in use, or the address is not one of this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with contextlib.ExitStack() as closing:
            listening = closing.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(2048)
            closing.pop_all()
            return listening
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} of {host} is in use; choose another with --port"
        else:
            reason = error.strerror or str(error)
            message = (
                f"cannot listen on {host}, port {port}: {reason}; choose another --host or --port"
            )
        raise ServeError(message) from None
