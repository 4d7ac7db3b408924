"""The verb `train`."""

import contextlib
import functools
import inspect
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer
from typer.core import TyperCommand

from crosshead.caller import split_names
from crosshead.cli import interrupt
from crosshead.cli import training_options as options
from crosshead.cli.app import app
from crosshead.cli.kinds import TRAIN
from crosshead.cli.terminal import READER_LEFT, note, put
from crosshead.errors import ConfigError, UserError
from crosshead.system.signals import end_on, stop_on_signals

if TYPE_CHECKING:
    from crosshead.recipe.presets import Sections
    from crosshead.recipe.recipe import Recipe


_EXAMPLES = (
    "crosshead train --source train.en --target train.de --out runs/en-de",
    "crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de",
    "crosshead train --from runs/base --mix runs/base --source new.en --target new.de \\\n"
    "      --valid-source valid.en --valid-target valid.de --out runs/tuned",
    "crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30",
)
ALL = "all"
GROUP_OF = {
    **dict.fromkeys(
        ("valid_pairs", "source_language", "target_language", "licence", "mix"), "pairs"
    ),
    **dict.fromkeys(("text", "valid_text", "context"), "text"),
    **dict.fromkeys(
        ("model", "max_updates", "max_epochs", "seed", "device", "threads", "precision"), "run"
    ),
}
"""The group of each option that the first screen of help leaves out."""
GROUPS = ["pairs", "text", "run"]


def train(
    out: options.OutOption,
    recipe: options.RecipeArgument = None,
    source: options.SourceOption = None,
    target: options.TargetOption = None,
    pairs: options.PairsOption = None,
    fields: options.FieldsOption = None,
    valid_source: options.ValidSourceOption = None,
    valid_target: options.ValidTargetOption = None,
    preset: options.PresetOption = None,
    start: options.StartOption = None,
    max_minutes: options.MaxMinutesOption = None,
    resume: options.ResumeOption = False,
    force: options.ForceOption = False,
    assignments: options.AssignmentsOption = None,
    valid_pairs: options.ValidPairsOption = None,
    source_language: options.SourceLanguageOption = None,
    target_language: options.TargetLanguageOption = None,
    licence: options.LicenceOption = None,
    mix: options.MixOption = None,
    text: options.TextOption = None,
    valid_text: options.ValidTextOption = None,
    context: options.ContextOption = None,
    model: options.ModelOption = None,
    max_updates: options.MaxUpdatesOption = None,
    max_epochs: options.MaxEpochsOption = None,
    seed: options.SeedOption = None,
    device: options.DeviceOption = None,
    threads: options.ThreadsOption = None,
    precision: options.PrecisionOption = None,
    **added: Any,
) -> None:
    """Train a model on parallel text, or on other data, and write its bundle to --out.

    Training ends when validation stops improving, or when a limit that you give is reached. Ctrl-C
    and SIGTERM finish the update and save a checkpoint; continue with --resume.
    """
    from crosshead.cli import reports
    from crosshead.system.progress import Display, choose_display
    from crosshead.training.given_data import GivenData
    from crosshead.training.mixing import old_domain
    from crosshead.training.run import train as run_recipe
    from crosshead.training.settings import typed_flags, without_unset

    given = without_unset({
        "data": {
            "source": source, "target": target, "pairs": pairs,
            "fields": split_names(fields) if fields else None,
            "source_language": source_language, "target_language": target_language,
            "license": licence,
            "valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs,
            "text": text, "valid_text": valid_text, "context": context,
            **{name: added[name] for each in TRAIN if not each.further for name in each.types},
        },
        "model": {"architecture": model},
        "train": {
            "max_minutes": max_minutes, "max_updates": max_updates, "max_epochs": max_epochs,
            "seed": seed, "device": device, "threads": threads, "precision": precision,
        },
    })  # fmt: skip
    for each in TRAIN:
        each.keys(given.get("data", {}))
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
        asked = [
            each.further({name: added[name] for name in each.types}, settings, start, resume)
            for each in TRAIN
            if each.further
        ]
        further = [each for each in asked if each is not None]
        more = {flag: count for each in further for flag, count in each.flags.items()}

        def check_and_announce(pairs: int) -> None:
            for each in further:
                each.check_size(pairs)
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
                    finished = all(
                        each.run(
                            out, settings, force=force, command=command, display=display,
                            resume=resume,
                        )
                        for each in further
                    )  # fmt: skip
                    if not finished:
                        note(reports.how_to_continue(out, *more))
        except ConfigError as error:
            # The run names recipe keys; messages must name flags.
            raise error.named(typed) from None
    raise typer.Exit(0 if finished else READER_LEFT)


class GroupedHelp(TyperCommand):
    """A command whose help shows its most frequent options, and `--help GROUP` those of a group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the groups that are asked for."""
        asked = set(args) & {*GROUPS, ALL} if "--help" in args else set()
        ctx.meta["groups"] = asked
        return super().parse_args(ctx, [each for each in args if each not in asked])

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, unless a group of options is asked for."""
        if not ctx.meta.get("groups"):
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the groups that are asked for, or the most frequent ones."""
        shown = ctx.meta.get("groups") or {""}
        for group in ("", *GROUPS):
            if group in shown or ALL in shown:
                records = [
                    record
                    for each in self.get_params(ctx)
                    if GROUP_OF.get(each.name or "", "") == group
                    and (record := each.get_help_record(ctx))
                ]
                with formatter.section(f"Options, {group}" if group else "Options"):
                    formatter.write_dl(records)


def register() -> None:
    """Make the verb known to the program, once all options are added."""
    found = dict(inspect.signature(train).parameters)
    del found["added"]
    for each in TRAIN:
        if each.group not in GROUPS:
            GROUPS.append(each.group)
        for name, annotation in each.types.items():
            GROUP_OF[name] = each.group
            default = False if bool in get_args(annotation) else None
            found[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )

    @functools.wraps(train)
    def verb(**given: Any) -> None:
        train(**given)

    verb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in found.values()]
    )
    verb.__annotations__ = {name: each.annotation for name, each in found.items()}
    groups = ", ".join([*GROUPS, ALL])
    app.command(
        "train",
        cls=GroupedHelp,
        epilog=f"\b\nMore options: crosshead train --help GROUP, with one of {groups}.\n\n"
        + "\b\nExamples:\n"
        + "".join(f"  {line}\n" for line in _EXAMPLES),
    )(verb)


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
