"""The process of the server: its socket, its start, its signals and its end."""

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from crosshead.addons.serving.app import make_app
from crosshead.addons.serving.directory import ServeError, load_directory
from crosshead.addons.serving.glossaries import Glossaries
from crosshead.addons.serving.keys import Keys, Rates
from crosshead.addons.serving.reading import Readers
from crosshead.addons.serving.requests import Settings, State
from crosshead.addons.serving.scheduler import Limits, Scheduler
from crosshead.addons.serving.service import Service
from crosshead.addons.serving.stores import Metrics, Suggestions
from crosshead.errors import UserError
from crosshead.tasks.translation.engine import Engines
from crosshead.tasks.translation.model_engine import model_engines
from crosshead.tasks.translation.translator import Translator


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
        glossaries: The folder of glossaries, or None to keep them in memory.
        drain: The seconds that requests under way have when the server ends. A request that is not
            done two seconds before is answered with 503.
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
    glossaries: Path | None = None
    drain: float = 10.0


_READ = 4096
"""The bytes of a connection that are read at a time. asyncio's 256 KiB may be 40,000 chunks of one
byte, whose reading would hold the event loop for seconds; 4 KiB take a tenth of a second."""


_HEADERS = 2**16
"""The largest number of bytes of the headers of a request; h11's own 16 KiB are few for cookies."""


class _Protocol(H11Protocol):
    """HTTP/1.1 in small readings, so that no connection holds the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.max_size = _READ  # type: ignore[attr-defined]
        super().connection_made(transport)


class _Server(uvicorn.Server):
    """A server that leaves signals to `_Process`, and ends the processes that read for it."""

    def __init__(self, config: uvicorn.Config, readers: Readers) -> None:
        super().__init__(config)
        self._readers = readers

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            await self._readers.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(state: State, scheduler: Scheduler, drain: float) -> uvicorn.Server:
    """Return the HTTP server of a state. It handles no signals."""
    return _Server(
        uvicorn.Config(
            make_app(state, scheduler),
            http=_Protocol,
            h11_max_incomplete_event_size=_HEADERS,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(drain),
        ),
        state.readers,
    )


def run_server(config: ServerConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, and answer the requests that are under way.

    SIGHUP loads the bundles again. Requests under way finish with the old ones.
    """
    listening = bound_socket(config.host, config.port)
    # Its warnings have bytes of the bodies.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    scheduler = Scheduler(config.workers, config.limits)
    try:
        suggestions = Suggestions(config.suggestions) if config.suggestions else None
        glossaries = Glossaries(config.glossaries)
        process = _Process(config, scheduler, suggestions, glossaries, say)
        asyncio.run(process.run(listening))
    finally:
        listening.close()
        scheduler.stop()  # the requests have had their time, and nobody waits any more
    late = process.late
    say(f"stopped; {late} request{'s' * (late != 1)} did not finish in time" if late else "stopped")


class _Stopped(BaseException):
    """The server ends while it loads bundles."""


class _Process:
    """The server while it runs."""

    def __init__(
        self,
        config: ServerConfig,
        scheduler: Scheduler,
        suggestions: Suggestions | None,
        glossaries: Glossaries,
        say: Callable[[str], None],
    ) -> None:
        self.config, self.scheduler, self.say = config, scheduler, say
        rates = Rates(config.per_minute)
        self.state = State(
            config.settings, Metrics(scheduler), rates, config.keys, suggestions,
            glossaries=glossaries,
        )  # fmt: skip
        self.server = make_server(self.state, scheduler, config.drain)
        self._loader: threading.Thread | None = None
        self._reload_asked = asyncio.Event()
        self._end_at = 0.0
        self.late = 0
        """The number of requests that were not done two seconds before the end."""

    async def run(self, listening: socket.socket) -> None:
        """Serve until a signal, or an error in the first loading of the bundles."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, self._reload_asked.set)
        serving = asyncio.create_task(self.server.serve([listening]))
        loading = asyncio.create_task(self._keep_loaded(listening))
        await asyncio.wait({serving, loading}, return_when=asyncio.FIRST_COMPLETED)
        signalled, self.server.should_exit = self.server.should_exit, True
        await serving
        loading.cancel()
        await asyncio.wait({loading})
        if self._loader is not None:
            self._loader.join(max(0.0, self._end_at - time.monotonic()))
        if not signalled:
            loading.result()  # raises what went wrong

    async def _keep_loaded(self, listening: socket.socket) -> None:
        """Load the bundles, and load them again after each SIGHUP."""
        self.state.service = await self._loaded()
        gc.freeze()  # looking through all modules would take a tenth of a second
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        served = self.state.service.directory.pairs.items()
        pairs = ", ".join(f"{'-'.join(codes)} by {pair.engine(1).name}" for codes, pair in served)
        self.say(f"ready on http://{shown}:{port} ({pairs})")
        while await self._reload_asked.wait():
            self._reload_asked.clear()
            try:
                self.state.service = await self._loaded()
            except Exception as error:  # whatever it is, the old bundles go on
                kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
                reason = " ".join(str(error).split())
                self.say(f"the bundles stay as they were: {kind}{reason}")
            else:
                self.say("the bundles are loaded again")

    async def _loaded(self) -> Service:
        """Load the bundles, in a thread that the end of the process does not wait for."""
        found: concurrent.futures.Future[Service] = concurrent.futures.Future()
        found.set_running_or_notify_cancel()

        def load() -> None:
            try:
                found.set_result(self._load())
            except BaseException as error:
                found.set_exception(error)

        self._loader = threading.Thread(target=load, name="loader", daemon=True)
        self._loader.start()
        return await asyncio.wrap_future(found)

    def _load(self) -> Service:
        def say(line: str) -> None:
            if self.server.should_exit:
                raise _Stopped
            self.say(line)

        config = self.config
        directory = load_directory(config.places, say, config.device, config.engines)
        return Service(self.scheduler, directory, self.state.readers)

    def _end(self) -> None:
        if self.server.should_exit:
            return
        self.say("stopping: answering the requests under way")
        self.server.should_exit = True
        # What is left two seconds before the end is answered with 503 instead of being cut off.
        self._end_at = time.monotonic() + self.config.drain
        loop, seconds = asyncio.get_running_loop(), max(0.0, self.config.drain - 2)
        loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        tasks = self.server.server_state.tasks
        self.late = len(tasks)
        for task in tasks:
            task.cancel()  # each is answered with 503, and its sentences leave the scheduler


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = family == socket.AF_INET6  # `::` is every address of this machine
        found = socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=both)
        # Its connections inherit this. Otherwise the body of an answer waits 40 ms for the client.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host or 'no host'}, port {port}: {error.strerror or error}; choose "
            "another --host or --port"
        ) from None
