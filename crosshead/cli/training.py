"""The verbs that make bundles: `train` and `average`."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import Files
from crosshead.errors import ConfigError, UserError
from crosshead.terminal import note, put, stop_on_signals


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de\n"
    "  crosshead train --text book.txt --out runs/book\n"
    "  crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de\n"
    "  crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30"
)
def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where run and bundle are written.")],
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A TOML file, or one that ships: multi30k, quickstart, tinyshakespeare, "
            "tinyshakespeare-long.",
        ),
    ] = None,
    source: Annotated[
        Files, typer.Option(metavar="F", help="Source sentences, one a line; repeatable.")
    ] = None,
    target: Annotated[
        Files, typer.Option(metavar="F", help="Their translations; one for each --source.")
    ] = None,
    pairs: Annotated[
        Files, typer.Option(metavar="F", help="TSV, CSV or JSONL with both sides; repeatable.")
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Source and target field of --pairs: names (the first line of a TSV or CSV then "
            "has them), or numbers of columns from 1.",
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the sources, such as en, for bundle and card (default: by suffixes "
            "of files such as .en, and by names in --fields).",
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Language of the targets, such as de (default: likewise)."
        ),
    ] = None,
    text: Annotated[
        Files, typer.Option(metavar="F", help="Text by itself, for a language model; repeatable.")
    ] = None,
    valid_source: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    valid_target: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    valid_pairs: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    valid_text: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="A", help="An architecture: transformer, recurrent, language, ..."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="tiny (default), small, base, big.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="BUNDLE", help="Fine-tune this bundle: its model, its tokenizer."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run in --out, once there is a bundle.")
    ] = False,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Let the command take this many minutes, reading and final scoring included "
            "(default: no limit, or the preset's).",
        ),
    ] = None,
    max_updates: Annotated[
        int | None, typer.Option(metavar="N", help="Stop training after this many updates.")
    ] = None,
    max_epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Stop training after this many epochs.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices.")] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="auto, cpu, cuda, ...")] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="T", help="CPU threads; 0, the default: all.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="auto, float32, ...")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
) -> None:
    """Train a model on parallel text, or on text by itself (--text).

    It leaves a bundle in --out. Training ends with the first of --max-minutes, --max-updates and
    --max-epochs. Ctrl-C, SIGTERM, or nobody left to read the messages: a checkpoint is saved after
    the update under way, for --resume; a second signal ends at once. Without validation files, some
    pairs are held out. Settings: preset, then recipe, then flags, then --set; the result is written
    to DIR/recipe.toml.

    --resume takes the settings of DIR/recipe.toml in the place of a preset's. Those of how long to
    train, how to search and where to compute, the learning rate and the names of files may be given
    anew, others must agree. --preset and --from only begin a run: they are not read again.
    """
    from crosshead import reports
    from crosshead.training.log import choose_display
    from crosshead.training.run import train as run_recipe
    from crosshead.training.settings import new_recipe, resumed_recipe, typed_flags, without_unset

    flags: dict[str, dict[str, object]] = {
        "data": {
            "source": source,
            "target": target,
            "pairs": pairs,
            "fields": fields.split(",") if fields else None,
            "source_language": source_language,
            "target_language": target_language,
            "valid_source": valid_source,
            "valid_target": valid_target,
            "valid_pairs": valid_pairs,
            "text": text,
            "valid_text": valid_text,
        },
        "model": {"architecture": model},
        "train": {
            "max_minutes": max_minutes,
            "max_updates": max_updates,
            "max_epochs": max_epochs,
            "seed": seed,
            "device": device,
            "threads": threads,
            "precision": precision,
        },
    }
    given = without_unset(flags)
    typed = typed_flags(given, assignments or [])
    if resume:
        if force:
            raise UserError(f"--resume goes on with the run in {out}: leave out --force")
        settings = resumed_recipe(out, recipe, given, assignments or [], typed)
        if preset or start:
            note(f"the run in {out} has begun: --preset and --from are not read again")
    else:
        settings = new_recipe(preset, recipe, given, assignments or [], start, typed)
        if preset and start:
            note(f"--preset {preset} says how to train; model and tokenizer are those of {start}")
    try:
        with stop_on_signals() as request:
            summary = run_recipe(
                settings,
                out,
                start=start,
                resume=resume,
                force=force,
                command=shlex.join(["crosshead", *sys.argv[1:]]),
                display=choose_display(lambda: request.ask(signal.SIGPIPE)),
                should_stop=request,
            )
    except ConfigError as error:
        # The run knows keys, and no flags.
        raise error.named(typed) from None
    if summary.rank == 0:  # of several processes the first one speaks
        (note if summary.interrupted else put)(reports.end_of_run(summary))
    raise typer.Exit(request.exit_code if summary.interrupted else 0)


@app.command(epilog="\b\nExample:\n  crosshead average runs/a runs/b runs/c --out runs/mean")
def average(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE", help="Two or more, of one shape.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new directory.")],
) -> None:
    """Average the weights of several bundles."""
    from crosshead.training.average import average_bundles

    average_bundles(bundles, out, command=shlex.join(["crosshead", *sys.argv[1:]]))
    put(f"{out}: the mean of {len(bundles)} bundles\n")
