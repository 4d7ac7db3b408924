"""The verb `serve`."""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from crosshead.cli.app import app
from crosshead.cli.options import DeviceOption, EngineOption
from crosshead.cli.terminal import note
from crosshead.errors import UserError


def _number(metavar: str, words: str, least: float = 1, most: float | None = None) -> Any:
    """Return an option with a number; its help has the default."""
    return typer.Option(metavar=metavar, min=least, max=most, show_default=False, help=words)


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead serve runs/en-de\n"
    "  crosshead serve runs/en-de runs/de-fr --port 8080\n"
    "  crosshead serve runs/en-de --engine ctranslate2 --type int8\n"
    "  crosshead serve en-de=models/first --keys keys.txt --characters 5000"
)
def serve(
    bundles: Annotated[
        list[str],
        typer.Argument(
            metavar="BUNDLE...",
            show_default=False,
            help="Bundles that translate text, each as a path or hf://ORG/NAME, or as en-de=PATH "
            "to name its languages.",
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            metavar="H",
            show_default=False,
            help="Address to listen on (default: 127.0.0.1, this machine alone). 0.0.0.0 is every "
            "address of this machine: use it behind a firewall or a reverse proxy.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, _number("N", "Port to listen on (default: 5000); 0 takes a free one.", 0, 65535)
    ] = 5000,
    workers: Annotated[
        int | None,
        _number(
            "N",
            "Number of threads that decode, each with its own running batch (default: one per core "
            "on a CPU, one on a GPU).",
            most=1024,
        ),
    ] = None,
    batch: Annotated[
        int,
        _number(
            "N",
            "Largest number of sentences in a running batch (default: 32). Lower it for quicker "
            "answers under load, raise it for more sentences a second.",
        ),
    ] = 32,
    memory: Annotated[
        int,
        _number(
            "MIB",
            "Memory of each worker for keys, values and encoded sources, in MiB (default: 256). A "
            "sentence waits until it fits.",
        ),
    ] = 256,
    waiting: Annotated[
        int,
        _number(
            "N",
            "Largest number of sentences that wait (default: 10000). Beyond it the server answers "
            "503 with Retry-After. A client that has half of them waiting gets 429.",
        ),
    ] = 10_000,
    timeout: Annotated[
        float,
        _number(
            "S",
            "Seconds a request may take; after them it gets 503 (default: 60.0). Raise it for long "
            "files.",
            0.1,
        ),
    ] = 60.0,
    characters: Annotated[
        int, _number("N", "Largest number of characters of a request (default: 0, no limit).", 0)
    ] = 0,
    texts: Annotated[
        int, _number("N", "Largest number of texts in a request (default: 1000; 0 is no limit).", 0)
    ] = 1000,
    body: Annotated[int, _number("MIB", "Largest body of a request in MiB (default: 10).")] = 10,
    rate: Annotated[
        int,
        _number(
            "N",
            "Largest number of requests a minute of each address; with --keys, of each key without "
            "a number of its own (default: 0, no limit).",
            0,
        ),
    ] = 0,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="File of API keys: in each line the SHA-256 of a key, a name, and, optionally, "
            "its requests per minute, of which 0 is no limit (default: no key is needed).",
        ),
    ] = None,
    suggestions: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="File of JSON Lines that receives suggested translations (default: suggestions "
            "are refused).",
        ),
    ] = None,
    glossaries: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that keeps the glossaries of DeepL's clients (default: they are kept in "
            "memory until the server ends).",
        ),
    ] = None,
    engine: EngineOption = "auto",
    kind: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="T",
            help="Number format of the weights for --engine ctranslate2, as for `crosshead export` "
            "(default: float32).",
        ),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Serve translations over HTTP: a web page, and the interfaces of LibreTranslate and DeepL.

    SIGTERM and Ctrl-C end the server after the requests under way are answered. SIGHUP loads the
    bundles again without losing a request.
    """
    # The imports take seconds. SIGHUP would end the process until the server handles it.
    before = signal.signal(signal.SIGHUP, lambda number, frame: None)
    try:
        try:
            from crosshead.addons.serving.server import ServerConfig, run_server
        except ModuleNotFoundError as error:
            raise UserError(
                f"`crosshead serve` needs {error.name}, which is not installed; install it with "
                "`pip install 'crosshead[serve]'`"
            ) from None
        from crosshead.addons.serving.keys import read_keys
        from crosshead.addons.serving.requests import Settings
        from crosshead.addons.serving.scheduler import Limits
        from crosshead.system.devices import choose_device
        from crosshead.system.processor import available_cores
        from crosshead.tasks.translation.engine import engines_of

        if workers is None:
            workers = available_cores() if choose_device(device).type == "cpu" else 1
        config = ServerConfig(
            places=bundles,
            host=host,
            port=port,
            workers=workers,
            device=device,
            engines=engines_of(engine, kind, workers),
            limits=Limits(batch, memory * 2**20, waiting, max(1, waiting // 2)),
            settings=Settings(characters, texts, body * 2**20, timeout),
            per_minute=rate,
            keys=None if keys is None else read_keys(keys),
            suggestions=suggestions,
            glossaries=glossaries,
        )
        run_server(config, note)
    finally:
        signal.signal(signal.SIGHUP, before)
