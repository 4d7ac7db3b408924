"""The verb `push`, which uploads a bundle to a hub."""

from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument
from crosshead.cli.terminal import at_terminal, note, put, table


@app.command(
    epilog="\b\nExamples:\n  crosshead push runs/en-de anna/en-de --dry-run\n"
    "  crosshead push runs/en-de anna/en-de\n"
    "  crosshead translate hf://anna/en-de input.txt"
)
def push(
    bundle: BundleArgument,
    name: Annotated[
        str,
        typer.Argument(
            metavar="ORG/NAME",
            help="Repository on the hub: your name or an organisation's, and the model's name.",
        ),
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="List the files and their sizes, and send nothing. No token is needed.",
        ),
    ] = False,
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="Make the new repository private (default: public, or the organisation's own "
            "default). If the repository exists and is public, the command stops.",
        ),
    ] = False,
    revision: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH",
            help="Branch to upload to (default: main). A new one is made from main.",
        ),
    ] = None,
) -> None:
    """Upload a bundle to a model hub, the Hugging Face Hub by default.

    The command sends the files of the bundle and nothing else of a run: no checkpoints, no log and
    no training text. The model card goes as it is. The files are compared with their checksums
    before and after. An interrupted upload continues when the command is run again.

    The token comes from `hf auth login` or from the variable HF_TOKEN. HF_ENDPOINT names another
    hub. The extra crosshead[hub] brings the client.
    """
    from crosshead.bundle.files import card_was_changed
    from crosshead.bundle.hub_client import hub_endpoint
    from crosshead.bundle.hub_names import checked_name, hub_name
    from crosshead.bundle.places import CARD
    from crosshead.bundle.push import plan_upload
    from crosshead.bundle.push import push as upload_bundle

    named = hub_name(name) or checked_name(name)
    target = checked_name(named.repository, revision or named.revision)
    upload = plan_upload(bundle, target)
    if card_was_changed(bundle) and CARD in upload.sizes:
        note(f"{bundle / CARD} was changed since the bundle was written; the changed card goes up")
    address, total = f"{hub_endpoint()}/{target.repository}", sum(upload.sizes.values())
    if dry_run:
        rows = [[file, f"{size:,}"] for file, size in [*upload.sizes.items(), ("total", total)]]
        kept = "private" if private else "public, unless the organisation's default is private"
        put(table([["file", "bytes"], *rows], numbers=1))
        put(
            f"\nThese files would go to {address}, branch {upload.branch}, in one commit. If there "
            f"is no such repository, it would be made ({kept}). Nothing was sent.\n"
        )
        return
    done = upload_bundle(upload, private=private, bars=at_terminal())
    for warning in done.warnings:
        note(warning)
    put(
        table(
            [
                ["address", done.address],
                ["branch", upload.branch],
                ["commit", done.commit if done.is_new else f"{done.commit} (nothing was new)"],
                ["files", f"{len(upload.sizes)}, {total / 1e6:.1f} MB, compared with the bundle's"],
                ["to use it", f"crosshead info {target}"],
            ]
        )
    )
