"""The verb `push`, which uploads a bundle to a hub."""

from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import BundleArgument
from crosshead.cli.terminal import note, put, table


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
            help="Repository on the hub: your name or an organisation's, and the model's name. "
            "ORG/NAME@BRANCH is another branch than main; a new one is made from main.",
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
) -> None:
    """Upload a bundle to a model hub, the Hugging Face Hub by default.

    The command sends the files of the bundle and nothing else of a run: no checkpoints, no log and
    no training text. The model card goes as it is. The files are compared with their checksums
    before. An interrupted upload continues when the command is run again.

    The token comes from `hf auth login` or from the variable HF_TOKEN. HF_ENDPOINT names another
    hub. The extra crosshead[hub] brings the client.
    """
    from crosshead.addons.hub.push import files_to_push, hub_page
    from crosshead.addons.hub.push import push as upload
    from crosshead.bundle.places import hub_name

    target = hub_name(name) or hub_name(f"hf://{name}")
    assert target is not None
    branch = target.revision or "main"
    if dry_run:
        sizes = files_to_push(bundle)
        rows = [
            [file, f"{size:,}"] for file, size in [*sizes.items(), ("total", sum(sizes.values()))]
        ]
        kept = "private" if private else "public, unless the organisation's default is private"
        put(table([["file", "bytes"], *rows], numbers=1))
        put(
            f"\nThese files would go to {hub_page(target)}, branch {branch}, in one commit. If "
            f"there is no such repository, it would be made ({kept}). Nothing was sent.\n"
        )
        return
    done = upload(bundle, target, private=private)
    for warning in done.warnings:
        note(warning)
    put(
        table(
            [
                ["address", hub_page(target)],
                ["branch", branch],
                ["commit", done.commit if done.is_new else f"{done.commit} (nothing was new)"],
                ["files", f"{len(done.sizes)}, {sum(done.sizes.values()) / 1e6:.1f} MB"],
                ["to use it", f"crosshead info {target}"],
            ]
        )
    )
