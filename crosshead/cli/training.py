"""The verb `train`."""

import contextlib
import functools
import inspect
import shlex
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer
from typer.core import TyperCommand

from crosshead.caller import split_names
from crosshead.cli import interrupt
from crosshead.cli import training_options as options
from crosshead.cli.app import app
from crosshead.cli.kinds import TRAIN, Further
from crosshead.cli.terminal import READER_LEFT, note, put
from crosshead.errors import ConfigError, UserError
from crosshead.system.signals import end_on, stop_on_signals

if TYPE_CHECKING:
    from crosshead.recipe.presets import Sections
    from crosshead.recipe.recipe import Recipe
    from crosshead.tasks.corpus import Corpus
    from crosshead.training.result import Summary


_EXAMPLES = (
    "crosshead train --source train.en --target train.de --out runs/en-de",
    "crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de",
    "crosshead train --from runs/base --mix runs/base --source new.en --target new.de \\\n"
    "      --valid-source valid.en --valid-target valid.de --out runs/tuned",
    "crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30",
)
ALL = "all"
GROUPS = list(filter(None, options.SETTINGS))
GROUP_OF = {
    "mix": "pairs",
    **{options.parameter(key): group for group, keys in options.SETTINGS.items() for key in keys},
}
"""The group of each option; the first screen of help shows those without one."""


def train(
    out: options.OutOption,
    recipe: options.RecipeArgument = None,
    preset: options.PresetOption = None,
    start: options.StartOption = None,
    resume: options.ResumeOption = False,
    force: options.ForceOption = False,
    assignments: options.AssignmentsOption = None,
    mix: options.MixOption = None,
    **given: Any,
) -> None:
    """Train a model on parallel text, or on other data, and write its bundle to --out.

    Training ends when validation stops improving, or when a limit that you give is reached. Ctrl-C
    and SIGTERM finish the update and save a checkpoint; continue with --resume.
    """
    from crosshead.cli.reports import how_to_continue
    from crosshead.recipe.presets import AUTO
    from crosshead.recipe.stored import bundle_settings, run_recipe
    from crosshead.system.progress import choose_display
    from crosshead.training import run
    from crosshead.training.directory import run_settings
    from crosshead.training.given_data import GivenData, old_domain

    if resume and force:
        raise UserError(
            f"--resume continues the run in {out}, --force replaces it; leave out one of them"
        )
    if resume and (preset or start or mix):
        note(f"--preset, --from and --mix are ignored: the run in {out} has already begun")
        preset = start = mix = None
    flags, files = _sections(given), GivenData(out)
    typed = _typed(flags, assignments or [])
    command = shlex.join(["crosshead", *sys.argv[1:]])
    with files.kept() if mix else contextlib.nullcontext():
        if mix:
            flags["data"].update(old_domain(mix, files.write))
        below = run_settings(out) if resume else bundle_settings(start) if start else None
        usual = None if recipe or resume else AUTO
        settings = run_recipe(preset or usual, recipe, flags, assignments or [], below, typed)
        if preset and start:
            note(f"the model and tokenizer come from {start}; the preset sets only the training")
        further = _further(given, settings, start, resume)
        try:
            with stop_on_signals(end_on, interrupt) as request:
                display = partial(choose_display, lambda: request.ask(signal.SIGPIPE))
                summary = run.train(
                    settings,
                    out,
                    start=start,
                    resume=resume,
                    force=force,
                    command=command,
                    display=display(),
                    check_data=partial(_check_and_announce, further, resume),
                )
                _report(summary, further)
                finished = not summary.interrupted and all(
                    each.run(
                        out, settings, force=force, command=command, display=display, resume=resume
                    )
                    for each in further
                )
                if not (finished or summary.interrupted):
                    note(how_to_continue(out, *_flags(further)))
        except ConfigError as error:
            # The run names recipe keys; messages must name flags.
            raise error.named(typed) from None
    raise typer.Exit(0 if finished else READER_LEFT)


def _further(
    given: Mapping[str, Any], settings: "Recipe", start: Path | None, resume: bool
) -> list[Further]:
    """Return the runs that follow, by the options of packages."""
    asked = (
        each.further({name: given[name] for name in each.types}, settings, start, resume)
        for each in TRAIN
        if each.further
    )
    return [each for each in asked if each is not None]


def _flags(further: list[Further]) -> dict[str, int]:
    """Return the options that ask for further runs, and the number of models of each."""
    return {flag: count for each in further for flag, count in each.flags.items()}


def _check_and_announce(further: list[Further], resume: bool, corpus: "Corpus") -> None:
    """Check the data for further runs, and announce them in a new run."""
    for each in further:
        each.check_data(corpus)
    for flag, count in _flags(further).items() if not resume else ():
        note(f"{flag} trains {count} more models after this one, each with the same limits")


def _report(summary: "Summary", further: list[Further]) -> None:
    """Print the report of a run in its main process."""
    from crosshead.cli.reports import end_of_run

    if summary.rank == 0:
        (note if summary.interrupted else put)(end_of_run(summary, *_flags(further)))


def _sections(given: Mapping[str, Any]) -> "Sections":
    """Return the sections of a recipe with the options that are given."""
    keys = [key for group in options.SETTINGS.values() for key in group]
    keys += [f"data.{name}" for each in TRAIN if not each.further for name in each.types]
    sections: Sections = {"data": {}, "model": {}, "train": {}}
    for key in keys:
        section, _, name = key.partition(".")
        if (value := given[options.parameter(key)]) is not None:
            sections[section][name] = split_names(value) if key == "data.fields" else value
    for each in TRAIN:
        each.keys(sections["data"])
    return sections


def _typed(flags: "Sections", assignments: list[str]) -> dict[str, str]:
    """Return the typed flags by recipe key, without the flags that `--set` overrides."""
    overridden = {text.partition("=")[0].strip() for text in assignments}
    return {
        key: f"--{options.parameter(key).replace('_', '-')}"
        for section, values in flags.items()
        for key in (f"{section}.{name}" for name in values)
        if not overridden & {key, key.partition(".")[2]}
    }


class GroupedHelp(TyperCommand):
    """A command whose help shows its most frequent options, and `--help GROUP` those of a group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the groups that are asked for."""
        groups = [*GROUPS, ALL]
        asked = set(args) & set(groups) if "--help" in args else set()
        if args[:1] == ["--help"] and len(args) == 2 and not asked:
            known = ", ".join(groups)
            ctx.fail(f"no group of options is called {args[1]!r}; choose one of {known}")
        ctx.meta["groups"] = asked
        return super().parse_args(ctx, [each for each in args if each not in asked])

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, unless a group of options is asked for."""
        if not ctx.meta.get("groups"):
            super().format_help_text(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the names of the groups and examples, unless a group is asked for."""
        if not ctx.meta.get("groups"):
            super().format_epilog(ctx, formatter)

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
    del found["given"]
    settings = [
        (group, options.parameter(key), annotation)
        for group, keys in options.SETTINGS.items()
        for key, annotation in keys.items()
    ]
    added = [(each.group, *option) for each in TRAIN for option in each.types.items()]
    for group, name, annotation in [*settings, *added]:
        if group and group not in GROUPS:
            GROUPS.append(group)
        GROUP_OF[name] = group
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
