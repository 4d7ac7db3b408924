"""The verb `train`."""

import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from crosshead.caller import split_names
from crosshead.cli import interrupt
from crosshead.cli import training_options as options
from crosshead.cli.app import app
from crosshead.cli.terminal import READER_LEFT, note, put
from crosshead.errors import ConfigError, UserError
from crosshead.system.signals import end_on, stop_on_signals

if TYPE_CHECKING:
    from crosshead.recipe.presets import Sections
    from crosshead.recipe.recipe import Recipe


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de\n"
    "  crosshead train --text book.txt --out runs/book\n"
    "  crosshead train --series ETTh1.csv --target OT --horizon 96 --out runs/ett\n"
    "  crosshead train --images photos.zip --out runs/photos\n"
    "  crosshead train --images photos --captions captions.jsonl --out runs/captions\n"
    "  crosshead train --images photos --pairs pairs.jsonl --out runs/beside-photos\n"
    "  crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de\n"
    "  crosshead train --from runs/base --mix runs/base --source new.en --target new.de \\\n"
    "      --valid-source valid.en --valid-target valid.de --out runs/tuned\n"
    "  crosshead train --pairs small.tsv --folds 5 --out runs/small\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de --curve\n"
    "  crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30"
)
def train(
    out: options.OutOption,
    recipe: options.RecipeArgument = None,
    source: options.SourceOption = None,
    target: options.TargetOption = None,
    pairs: options.PairsOption = None,
    fields: options.FieldsOption = None,
    source_language: options.SourceLanguageOption = None,
    target_language: options.TargetLanguageOption = None,
    licence: options.LicenceOption = None,
    text: options.TextOption = None,
    series: options.SeriesOption = None,
    inputs: options.InputsOption = None,
    future: options.FutureOption = None,
    series_id: options.SeriesIdOption = None,
    images: options.ImagesOption = None,
    captions: options.CaptionsOption = None,
    horizon: options.HorizonOption = None,
    context: options.ContextOption = None,
    valid_source: options.ValidSourceOption = None,
    valid_target: options.ValidTargetOption = None,
    valid_pairs: options.ValidPairsOption = None,
    valid_text: options.ValidTextOption = None,
    valid_images: options.ValidImagesOption = None,
    valid_captions: options.ValidCaptionsOption = None,
    model: options.ModelOption = None,
    preset: options.PresetOption = None,
    start: options.StartOption = None,
    mix: options.MixOption = None,
    resume: options.ResumeOption = False,
    force: options.ForceOption = False,
    curve: options.CurveOption = False,
    folds: options.FoldsOption = None,
    max_minutes: options.MaxMinutesOption = None,
    max_updates: options.MaxUpdatesOption = None,
    max_epochs: options.MaxEpochsOption = None,
    seed: options.SeedOption = None,
    device: options.DeviceOption = None,
    threads: options.ThreadsOption = None,
    precision: options.PrecisionOption = None,
    assignments: options.AssignmentsOption = None,
) -> None:
    """Train a model on parallel text, monolingual text, time series or images.

    Give parallel text as --source and --target or as --pairs, monolingual text as --text, time
    series as --series, and images as --images.

    The trained bundle is written to --out. Training ends when the first of --max-minutes,
    --max-updates and --max-epochs is reached. If you give none of them, the default for parallel
    text is to train until validation stops improving (early stopping). A limit that you give
    replaces the preset's limits.

    Later settings replace earlier ones in this order: preset, recipe, options, --set. The resulting
    recipe is written to DIR/recipe.toml.

    If you press Ctrl-C or the terminal closes, training finishes the current update, saves a
    checkpoint and exits. SIGTERM, SIGUSR1 and SIGXCPU do the same. A second Ctrl-C or SIGTERM ends
    the program at once. Continue with --resume.

    --curve and --folds train further models on subsets of the pairs. Finished ones are not trained
    again: continue with --resume and the same option. It also adds them to a finished run.

    --resume reads the settings from DIR/recipe.toml instead of a preset. You may change how long to
    train, how to search, where to compute, the learning rate and the names of files. Other settings
    must stay the same. A limit that you give replaces all limits of the run. --preset, --from and
    --mix are ignored.
    """
    from crosshead.addons.experiments.data_curve import SHARES, check_enough_pairs
    from crosshead.addons.experiments.folds import check_enough_different
    from crosshead.addons.experiments.subsets import Runs, check_subsets
    from crosshead.cli import reports
    from crosshead.cli.subsets import run_subsets
    from crosshead.system.progress import Display, choose_display
    from crosshead.training.given_data import GivenData
    from crosshead.training.mixing import old_domain
    from crosshead.training.run import train as run_recipe
    from crosshead.training.settings import typed_flags, without_unset

    given = without_unset({
        "data": {
            "source": source, "target": _columns(target) if series else target, "pairs": pairs,
            "fields": split_names(fields) if fields else None,
            "source_language": source_language, "target_language": target_language,
            "license": licence,
            "valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs,
            "text": text, "valid_text": valid_text, "series": series,
            "inputs": _columns(inputs), "future": _columns(future), "id": series_id,
            "images": images, "valid_images": valid_images,
            "captions": captions, "valid_captions": valid_captions,
            "horizon": horizon, "context": context,
        },
        "model": {"architecture": model},
        "train": {
            "max_minutes": max_minutes, "max_updates": max_updates, "max_epochs": max_epochs,
            "seed": seed, "device": device, "threads": threads, "precision": precision,
        },
    })  # fmt: skip
    typed = typed_flags(given, assignments or [])
    if resume:
        unused = {"--preset": preset, "--from": start, "--mix": mix}
        _note_ignored(out, [flag for flag, value in unused.items() if value])
        mix = None
    files = GivenData(out)
    with files.kept() if mix is not None else contextlib.nullcontext():
        if mix is not None:
            given.setdefault("data", {}).update(old_domain(mix, files.write))
        if resume and force:
            raise UserError(
                f"--resume continues the run in {out}, --force replaces it; leave out one of them"
            )
        settings = _recipe(out, recipe, given, assignments or [], typed, preset, start, resume)
        # The options that train more models, each with their number.
        more = {"--curve": len(SHARES)} if curve else {}
        more |= {f"--folds {folds}": folds} if folds else {}
        for flag in more:
            check_subsets(settings, flag.split()[0].removeprefix("--"), None if resume else start)
        if folds is not None and not resume:  # a resumed run may have to find moved files first
            check_enough_different(settings, folds)

        def check_and_announce(pairs: int) -> None:
            if curve:
                check_enough_pairs(pairs)
            if resume:
                return
            for flag, count in more.items():
                note(f"{flag} trains {count} more models after this one, each with the same limits")

        command = shlex.join(["crosshead", *sys.argv[1:]])
        try:
            with stop_on_signals(end_on, interrupt) as request:

                def display() -> Display:
                    return choose_display(lambda: request.ask(signal.SIGPIPE))

                summary = run_recipe(
                    settings,
                    out,
                    start=start,
                    resume=resume,
                    force=force,
                    command=command,
                    display=display(),
                    check_size=check_and_announce,
                )
                if summary.rank == 0:  # only the main process prints
                    report = reports.end_of_run(summary, *more)
                    (note if summary.interrupted else put)(report)
                finished = not summary.interrupted
                if finished and more:
                    runs = Runs(settings, force, command, display)
                    finished = run_subsets(out, runs, curve, folds, resume)
                    if not finished:
                        note(reports.how_to_continue(out, *more))
        except ConfigError as error:
            # The run names recipe keys; messages must name flags.
            raise error.named(typed) from None
    raise typer.Exit(0 if finished else READER_LEFT)


def _columns(given: list[str] | None) -> str | None:
    """Return the columns of repeated flags as one text, with commas between the names."""
    return ",".join(given) if given else None


def _note_ignored(out: Path, flags: list[str]) -> None:
    """Say which options a resumed run does not read."""
    if flags:
        *first, last = flags
        ignored = f"{', '.join(first)}{' and ' if first else ''}{last}"
        verb = "are" if first else "is"
        note(f"the run in {out} has already begun: {ignored} {verb} ignored")


def _recipe(
    out: Path,
    recipe: str | None,
    given: "Sections",
    assignments: list[str],
    typed: dict[str, str],
    preset: str | None,
    start: Path | None,
    resume: bool,
) -> "Recipe":
    """Return the recipe of a new or a resumed run, and note what a preset beside a bundle does."""
    from crosshead.recipe.presets import AUTO, DEFAULT
    from crosshead.training.settings import new_recipe, resumed_recipe

    if resume:
        return resumed_recipe(out, recipe, given, assignments, typed)
    settings = new_recipe(
        preset or (None if recipe else AUTO), recipe, given, assignments, start, typed
    )
    if preset == AUTO and start:
        note(
            f"--preset {AUTO} does not apply to fine-tuning: the model and tokenizer come from "
            f"{start}; training settings that you leave out come from the preset {DEFAULT}, and "
            "the learning rate from the preset of the nearest width"
        )
    elif preset and start:
        note(f"the model and tokenizer come from {start}; --preset {preset} sets only the training")
    return settings
