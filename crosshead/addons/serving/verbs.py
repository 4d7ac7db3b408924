"""The verb `serve`."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crosshead.cli.app import app
from crosshead.cli.options import DeviceOption
from crosshead.cli.terminal import note
from crosshead.errors import UserError

if TYPE_CHECKING:
    from crosshead.addons.serving.directory import Engines
    from crosshead.tasks.translation.translator import Translator

BundlesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="BUNDLE...",
        show_default=False,
        help="Bundles that translate text, each as a path or hf://ORG/NAME, or as en-de=PATH to "
        "name its languages.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        metavar="H",
        show_default=False,
        help="Address to listen on (default: 127.0.0.1, this machine alone). 0.0.0.0 is every "
        "address of this machine: use it behind a firewall or a reverse proxy.",
    ),
]
PortOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        show_default=False,
        help="Port to listen on (default: 5000); 0 takes a free one.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1024,
        show_default=False,
        help="Number of threads that decode, each with its own running batch (default: one per "
        "core on a CPU, one on a GPU).",
    ),
]
BatchOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        show_default=False,
        help="Largest number of sentences in a running batch (default: 32). Lower it for quicker "
        "answers under load, raise it for more sentences a second.",
    ),
]
MemoryOption = Annotated[
    int,
    typer.Option(
        metavar="MIB",
        min=1,
        show_default=False,
        help="Memory of each worker for keys, values and encoded sources, in MiB (default: 256). A "
        "sentence waits until it fits.",
    ),
]
WaitingOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        show_default=False,
        help="Largest number of sentences that wait (default: 10000). Beyond it the server answers "
        "503 with Retry-After. A client that has half of them waiting gets 429.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        metavar="S",
        min=0.1,
        show_default=False,
        help="Seconds a request may take; after them it gets 503 (default: 60.0). Raise it for "
        "long files.",
    ),
]
CharactersOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        show_default=False,
        help="Largest number of characters of a request (default: 0, no limit).",
    ),
]
TextsOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        show_default=False,
        help="Largest number of texts in a request (default: 1000; 0 is no limit).",
    ),
]
AlternativesOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=99,
        show_default=False,
        help="Largest number of alternatives that a request may ask for (default: 9).",
    ),
]
BodyOption = Annotated[
    int,
    typer.Option(
        metavar="MIB",
        min=1,
        show_default=False,
        help="Largest body of a request in MiB (default: 10).",
    ),
]
RateOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        show_default=False,
        help="Largest number of requests a minute of each address; with --keys, of each key "
        "without a number of its own (default: 0, no limit).",
    ),
]
KeysOption = Annotated[
    Path | None,
    typer.Option(
        metavar="F",
        help="File of API keys: in each line the SHA-256 of a key, a name, and, optionally, its "
        "requests per minute, of which 0 is no limit (default: no key is needed).",
    ),
]
EngineOption = Annotated[
    Literal["crosshead", "ctranslate2"],
    typer.Option(
        show_default=False,
        help="Decoding engine (default: crosshead). With crosshead, new sentences join the running "
        "batch at every step. ctranslate2 translates whole batches and needs `pip install "
        "'crosshead[export]'`.",
    ),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="T",
        help="Number format of the weights for --engine ctranslate2, as for `crosshead export` "
        "(default: float32).",
    ),
]
SuggestionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="F",
        help="File of JSON Lines that receives suggested translations (default: suggestions are "
        "refused).",
    ),
]


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead serve runs/en-de\n"
    "  crosshead serve runs/en-de runs/de-fr --port 8080\n"
    "  crosshead serve runs/en-de --engine ctranslate2 --type int8\n"
    "  crosshead serve en-de=models/first --keys keys.txt --characters 5000"
)
def serve(
    bundles: BundlesArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 5000,
    workers: WorkersOption = None,
    batch: BatchOption = 32,
    memory: MemoryOption = 256,
    waiting: WaitingOption = 10_000,
    timeout: TimeoutOption = 60.0,
    characters: CharactersOption = 0,
    texts: TextsOption = 1000,
    alternatives: AlternativesOption = 9,
    body: BodyOption = 10,
    rate: RateOption = 0,
    keys: KeysOption = None,
    suggestions: SuggestionsOption = None,
    engine: EngineOption = "crosshead",
    kind: TypeOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Serve translations over HTTP: a web page, and the interfaces of LibreTranslate and DeepL.

    SIGTERM and Ctrl-C end the server after the requests under way are answered. SIGHUP loads the
    bundles again without losing a request.
    """
    with _hangups_ignored():
        try:
            import prometheus_client  # noqa: F401
            import py3langid  # type: ignore[import-untyped]  # noqa: F401
            import python_multipart  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"`crosshead serve` needs {error.name}, which is not installed; install it with "
                "`pip install 'crosshead[serve]'`"
            ) from None
        from crosshead.addons.serving.keys import read_keys
        from crosshead.addons.serving.requests import Settings
        from crosshead.addons.serving.scheduler import Limits
        from crosshead.addons.serving.server import ServerConfig, run_server
        from crosshead.system.devices import available_cores, choose_device

        if workers is None:
            workers = available_cores() if choose_device(device).type == "cpu" else 1
        config = ServerConfig(
            places=bundles,
            host=host,
            port=port,
            workers=workers,
            device=device,
            engines=_engines(engine, kind, workers),
            limits=Limits(batch, memory * 2**20, waiting, max(1, waiting // 2)),
            settings=Settings(characters, texts, alternatives, body * 2**20, timeout),
            per_minute=rate,
            keys=None if keys is None else read_keys(keys),
            suggestions=suggestions,
        )
        run_server(config, note)


@contextlib.contextmanager
def _hangups_ignored() -> Iterator[None]:
    """Ignore SIGHUP until the server handles it: a reload of what is not loaded yet is no news.

    Imports take seconds, in which SIGHUP would end the process.
    """
    before = signal.signal(signal.SIGHUP, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _engines(name: str, kind: str | None, workers: int) -> "Callable[[Translator], Engines]":
    """Return what makes the engines of a translator."""
    from crosshead.addons.serving.engine import model_engines

    if name == "ctranslate2":
        from crosshead.addons.serving.ctranslate2_engine import ctranslate2_engines

        return ctranslate2_engines(kind, workers)
    if kind is not None:
        raise UserError("--type is for --engine ctranslate2; leave it out, or give that engine")
    return model_engines
