"""Training from Python: `crosshead.train`, with data from files or from memory."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.caller import PYTHON, calling_from
from crosshead.config import nearest, nearest_key
from crosshead.errors import ConfigError
from crosshead.recipe.compose import compose, known_keys
from crosshead.recipe.presets import AUTO, PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import bundle_settings, run_recipe, shipped_recipes
from crosshead.system.files import StrPath
from crosshead.system.progress import Display, choose_display
from crosshead.system.signals import stop_on_signals
from crosshead.tasks.base import WriteLines
from crosshead.tasks.loading import local_bundle
from crosshead.tasks.registry import TASKS
from crosshead.training import run
from crosshead.training.context import Callback, ignore
from crosshead.training.directory import run_settings
from crosshead.training.given_data import GivenData, Pairs, Texts
from crosshead.training.result import Summary


def train(
    recipe: Recipe | StrPath | None = None,
    *,
    out: StrPath,
    source: Texts | None = None,
    target: Texts | None = None,
    pairs: Pairs | None = None,
    fields: Sequence[str | int] | None = None,
    text: Texts | None = None,
    valid_source: Texts | None = None,
    valid_target: Texts | None = None,
    valid_pairs: Pairs | None = None,
    valid_text: Texts | None = None,
    start: StrPath | None = None,
    resume: bool = False,
    force: bool = False,
    display: Display | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_update: Callback = ignore,
    on_validation: Callback = ignore,
    **sections: Any,
) -> Summary:
    """Train a model on files or on data in memory, and write a bundle.

    A `str` or a `Path` names a file, and so does each `Path` of a list. A list of `str` is data:
    one sentence each. Data in memory is written to files beside the run directory
    (`OUT.data/train-CHECKSUM.jsonl` and so on), because a run reads its data several times, and
    again when it is resumed.

    Args:
        recipe: A preset (`auto`, `tiny`, `small`, `base`, `big`), the name of a recipe that ships,
            the path of a TOML file, or a `Recipe`. By default `auto` for pairs of texts, which
            chooses settings for the data, the budget and the machine, and otherwise `tiny`.
        out: The run directory, which becomes a bundle.
        source: Source sentences.
        target: Their translations, in the same order; with data of another task, its `data.target`.
        pairs: Pairs in place of `source` and `target`: files; an iterable of tuples (source,
            target); an iterable of mappings, or a mapping or table of columns, with `fields`.
        fields: The source field and the target field of `pairs`: names, or numbers as keys of
            columns in memory.
        text: Monolingual text, for a language model.
        valid_source: Source sentences for validation. By default some pairs are held out.
        valid_target: Their translations.
        valid_pairs: Pairs for validation, in a form of `pairs`.
        valid_text: Text for validation. By default the end of `text` is held out.
        start: A bundle to fine-tune, or a model on a hub, `hf://ORG/NAME@revision`.
        resume: Continue the run in `out`.
        force: Replace the run in `out`.
        display: Shows messages and progress. By default they go to standard error; `Silent()`
            shows nothing.
        should_stop: Asked after each update whether to stop.
        on_update: Receives a row after each update: `update`, `epoch`, `loss` and so on.
        on_validation: Receives a row after each validation: `update`, `epoch`, `loss`, `bleu`.
        **sections: Sections of the recipe, which replace single keys of it:
            `model={"heads": 8}`, `train={"max_updates": 1000}`. `model="recurrent"` chooses an
            architecture. A key of `[data]` that names files may also stand by itself, with names of
            files, or with data in memory if its task takes them.

    Returns:
        The end of the run, with its scores.

    Raises:
        ConfigError: If a section is unknown.
        UserError: If the recipe, the data or the directory cannot be used.
        KeyboardInterrupt: After Ctrl-C, when a checkpoint is saved: `resume=True` continues.
            SIGTERM, SIGHUP, SIGUSR1 and SIGXCPU save one too, and then end the program as usual.
        BaseException: An exception of a callback, when a checkpoint is saved in the same way.

    Example:
        >>> crosshead.train(source=["a b", "b c"], target=["x y", "y z"], out="runs/letters",
        ...                 train={"max_updates": 100})  # doctest: +SKIP
    """
    out = Path(out)
    named = {key: sections.pop(key) for key in file_arguments() & sections.keys()}
    named = {key: value for key, value in named.items() if value is not None}
    _check_names(sections)
    start = None if start is None else local_bundle(start)
    data = GivenData(out)
    shown = display or choose_display(lambda: None)
    # Outermost, so that a signal ends the program after unused files are removed.
    with stop_on_signals() as request, data.kept(), calling_from(PYTHON):
        given: dict[str, Any] = dict(sections.pop("data", None) or {})
        if named:
            found = _stored(named if target is None else {**named, "target": target}, data.write)
            given |= found
            target = None if "target" in found else target
        given |= data.split("train", "", source, target, pairs, text, fields)
        given |= data.split(
            "valid", "valid_", valid_source, valid_target, valid_pairs, valid_text, fields
        )
        flags: dict[str, Any] = {**sections, "data": given}
        summary = run.train(
            _recipe(recipe, flags, out, start, resume=resume),
            out,
            start=start,
            resume=resume,
            force=force,
            command="crosshead.train",
            display=shown,
            should_stop=should_stop,
            on_update=on_update,
            on_validation=on_validation,
        )
        if request() and summary.rank == 0:
            shown.say(request.outcome)
    return summary


def file_arguments() -> set[str]:
    """Return the keys of `[data]` that name files, of all tasks."""
    return {key for task in TASKS.values() for key in task.recipe.data_class().file_keys}


def _stored(given: Mapping[str, Any], write: WriteLines) -> dict[str, Any]:
    """Return the keys of `[data]` for given data, by the task that recognizes them."""
    for task in TASKS.values():
        if task.recognizes(dict.fromkeys(given, True)):
            return task.stored(given, write)
    return dict(given)


def _check_names(sections: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an argument that is no section."""
    known = known_keys()
    for name in sections:
        if name not in known.sections:
            arguments = [*inspect.signature(train).parameters, *known.sections, *file_arguments()]
            hint = nearest_key(name, arguments, known.qualified())
            raise ConfigError(f"train has no argument or section {name!r}; {hint}")


def _recipe(
    recipe: Recipe | StrPath | None,
    flags: dict[str, Any],
    out: Path,
    start: StrPath | None,
    *,
    resume: bool,
) -> Recipe:
    """Return the recipe with the settings of `flags`."""
    if isinstance(recipe, Recipe):
        composed: Recipe = compose(None, recipe.model_dump(), flags)
        return composed
    if not isinstance(recipe, str | os.PathLike | None):
        raise ConfigError(
            f"recipe: expected a name, a path or a Recipe, found {type(recipe).__name__}; give "
            "sections by name, such as train={'max_updates': 1000}"
        )
    name = None if recipe is None else os.fspath(recipe)
    if name is None and not resume:
        name = AUTO
    preset, presets = None, {AUTO, *(size for sizes in PRESETS.values() for size in sizes)}
    if name in presets:
        preset, name = name, None
    elif name is not None and not name.endswith(".toml"):
        known = [*presets, *shipped_recipes()]
        if name not in known:
            raise ConfigError(f"there is no preset or recipe {name!r}; {nearest(name, known)}")
    below = run_settings(out) if resume else bundle_settings(start) if start else None
    return run_recipe(preset, name, flags, below=below)
