"""The verb `look`."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument, DeviceOption, ToOption
from crosshead.cli.terminal import note, put


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead look runs/en-de\n"
    "  crosshead look runs/recurrent runs/transformer --text 'A dog runs.'\n"
    "  crosshead look runs/en-de --text 'A dog runs.' --save dog.html"
)
def look(
    bundle: BundleArgument,
    second: Annotated[
        Path | None,
        typer.Argument(metavar="BUNDLE2", help="Another model, to compare.", show_default=False),
    ] = None,
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Text to look at first.", show_default=False)
    ] = "",
    save: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Write the page to a file that needs no server, and end."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            show_default=False,
            help="Port of the page (default: a free one).",
        ),
    ] = 0,
    to: ToOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Look inside a model in the browser, change it, and see the output change.

    The page shows the steps of the search, the attention of every head and its numbers, the beam,
    and what each layer would write. Heads can be removed, edges forbidden, states patched.
    """
    import torch

    from crosshead.addons.look.session import Session
    from crosshead.cli.arguments import check_outputs, into
    from crosshead.errors import UserError
    from crosshead.inspection.computing import computing_forms
    from crosshead.inspection.saved_page import saved_page
    from crosshead.system.files import atomic_write
    from crosshead.tasks.loading import load
    from crosshead.tasks.translation.translator import Translator

    if save is not None:
        check_outputs({"--save": save}, [], bundle)
        if save.suffix.lower() not in (".html", ".htm"):
            raise UserError(f"--save {save}: expected the name of a page to end in .html")
        if not text.strip():
            raise UserError("--save needs the text that the page shows: --text")
    torch.set_num_threads(1)  # the products of one sentence are too small to be shared
    if second == bundle:
        raise UserError(f"{second} is given twice; give another model, or one")
    places = [bundle] if second is None else [bundle, second]
    found = {str(place): load(place, device) for place in places}
    if to is not None and not all(isinstance(each, Translator) for each in found.values()):
        raise UserError("--to is for models that translate text")
    session = Session(
        {
            place: into(each, to) if isinstance(each, Translator) else each
            for place, each in found.items()
        }
    )
    if save is not None:
        requests = [
            {"ask": ask, "model": model, "text": text}
            for model in range(len(session.models))
            for ask in ("trace", "heads")
        ]
        answers = [{"request": each, "answer": session.answer(each)} for each in requests]
        computing = computing_forms(session.pipelines)
        models = [each | {"name": Path(each["name"]).name} for each in session.models]
        page = saved_page(models, text, answers, computing).encode()
        atomic_write(save, page)
        does = "recorded" if computing is None else "it computes"
        put(f"page: {save} ({does}, {len(page) / 1e6:.1f} MB)\n")
        return
    from crosshead.addons.look.server import Server

    try:
        server = Server(session, port, text)
    except OSError as error:
        raise UserError(f"--port {port}: {error.strerror}; choose another one") from None
    address = f"http://127.0.0.1:{server.server_port}/"
    note(f"look at {address} (Ctrl-C ends it)")
    # A browser in the terminal waits for the page before it returns.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        note("ended")
