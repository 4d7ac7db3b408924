"""Experiments: runs of one recipe on subsets of its pairs, in a folder beside the run on all pairs.

The folder also holds the recipe that all of its runs begin with. A finished run is not repeated,
and an interrupted one continues.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.config import BundleScore
from crosshead.bundle.config_file import load_config
from crosshead.bundle.places import CHECKPOINTS, CONFIG, RECIPE, is_run
from crosshead.caller import option
from crosshead.cli.terminal import put, table
from crosshead.config import validate
from crosshead.errors import BundleError, UserError
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import absolute, check_resumed, stored_form
from crosshead.system.files import atomic_write, make_directory, real_path
from crosshead.system.progress import Display, Silent
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.registry import kinds
from crosshead.training.checkpoint import newest_state
from crosshead.training.directory import is_resumable, stored_recipe
from crosshead.training.progress import Progress
from crosshead.training.run import train

_BY_SIZE = {"tokenizer": ("vocab_size",), "train": ("warmup", "valid_every")}
"""Keys by section whose values a run chooses by the number of its pairs, if they are not stated."""

_BUDGET = ("max_updates", "max_epochs", "max_minutes", "patience")
"""Keys of `[train]` that a resumed run may change, and that are the same for all runs."""


@dataclass(frozen=True)
class Subset:
    """A part of the pairs, for one run."""

    name: str
    """The name of the run directory in the folder."""
    words: str
    """A description for people, such as `fold 2 of 5`."""
    data: Mapping[str, Any]
    """The keys of `[data]` that choose the pairs."""


@dataclass(frozen=True)
class Outcome:
    """The scores of a finished run."""

    pairs: int
    """The number of training pairs."""
    scores: Sequence[BundleScore]


class Report(NamedTuple):
    """The findings of the runs of an experiment."""

    outcomes: Mapping[str, Outcome]
    """The runs by name."""
    sentences: Sequence[str]
    file: Path | None = None
    """The table of the scores."""

    def text(self) -> str:
        """Return the scores as a table, the sentences and the file."""
        rows = table_of(self.outcomes)
        lines = [*self.sentences, f"Written: {self.file}"]
        return "\n" + table(rows, numbers=len(rows[0]) - 1) + "\n" + "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Runs:
    """Settings that all runs on subsets share."""

    recipe: Recipe
    force: bool = False
    """True replaces earlier runs."""
    command: str = ""
    """The typed command, for the model cards."""
    display: Callable[[], Display] = field(default=Silent)
    """Returns a display for each run."""


@dataclass(frozen=True)
class Experiment:
    """Runs on subsets of the pairs, after the run on all pairs."""

    flag: str
    """The option that asks for it, such as `folds`; also the name of its table."""
    kind: str
    """The end of the name of the folder, such as `5-folds`."""
    models: int
    """The number of models that it trains."""
    least_pairs: int
    """The smallest number of training pairs."""
    subsets: Callable[[Recipe], Sequence[Subset]]
    conclude: Callable[[Outcome, dict[str, Outcome]], Report]
    """Returns what the runs show. It takes the run on all pairs, and those on subsets by name."""

    def check_pairs(self, corpus: Corpus) -> None:
        """Check that there are enough training pairs."""
        if corpus.size < self.least_pairs:
            raise UserError(
                f"{option(self.flag)}: {corpus.size:,} training pairs are too few; at least "
                f"{self.least_pairs:,} are needed: leave it out"
            )

    def measure(self, whole: Outcome, folder: Path, runs: Runs) -> Report | None:
        """Train, and return what the runs show, or None if one was asked to stop."""
        outcomes = train_subsets(runs, folder, self.subsets(runs.recipe))
        if outcomes is None:
            return None
        found, table = self.conclude(whole, outcomes), folder / f"{self.flag}.tsv"
        write_table(table, found.outcomes)
        return found._replace(file=table)


def run_experiments(
    out: Path,
    recipe: Recipe,
    *,
    experiments: Sequence[Experiment],
    force: bool,
    command: str,
    display: Callable[[], Display],
    resume: bool,
) -> bool:
    """Make the experiments of a finished run, print their reports, and return whether all ended."""
    whole = outcome_of(out)
    for each in experiments:
        folder = subset_folder(out, each.kind)
        recipe = planned_recipe(out, folder, resume=resume)
        report = each.measure(whole, folder, Runs(recipe, force, command, display))
        if report is None:
            return False
        put(report.text())
    return True


def subset_folder(out: Path, kind: str) -> Path:
    """Return the folder of the runs on subsets."""
    place = out if out.name not in ("", "..") else real_path(out)
    return place.with_name(f"{place.name}.{kind}")


def check_subsets(recipe: Recipe, flag: str, start: Path | None) -> None:
    """Check that a recipe can be trained on subsets."""
    found = ""
    if not hasattr(recipe.data, "fold") or recipe.model.task != "translation":
        found = f"takes subsets of pairs of texts, but this recipe is for {recipe.model.task}"
    elif start is not None:
        found = f"trains new models, but {option('from', str(start))} fine-tunes one"
    elif int(os.environ.get("WORLD_SIZE", 1)) > 1:
        found = f"trains in one process, found {os.environ['WORLD_SIZE']}"
    if found:
        raise UserError(f"{option(flag)} {found}; leave it out")


def planned_recipe(out: Path, folder: Path, *, resume: bool) -> Recipe:
    """Return the recipe of the runs on subsets, and store it in their folder.

    It is the recipe of the run on all pairs, with the values that this run chose. Those that depend
    on the number of pairs are open again, unless the user stated them: small subsets cannot have a
    large vocabulary, and a long warm-up would be a larger part of their runs.

    The limits are those of the run on all pairs, whatever the command says. If it has ended, a
    smaller limit does not change it, and runs of other lengths cannot be compared with it.
    """
    newest = newest_state(out / CHECKPOINTS)
    progress = newest[1] if newest else Progress()
    if progress.tuned:
        raise UserError(f"{out}: was fine-tuned; subsets need a run that began with a new model")
    recipe = stored_recipe(out)
    if resume and (folder / RECIPE).is_file():
        recipe = _with(stored_recipe(folder), "train", _limits(recipe))
    else:
        for section, keys in _BY_SIZE.items():
            chosen = [key for key in keys if f"{section}.{key}" not in progress.stated]
            recipe = _with(recipe, section, {k: recipe.left_open[section][k] for k in chosen})
    make_directory(folder)
    atomic_write(folder / RECIPE, stored_form(recipe, folder).encode())
    return recipe


def train_subsets(runs: Runs, folder: Path, subsets: Iterable[Subset]) -> dict[str, Outcome] | None:
    """Train a model on each subset that has no finished run, and return the outcomes by name.

    None is returned if a run was asked to stop.
    """
    outcomes = {}
    for subset in subsets:
        out, display = folder / subset.name, runs.display()
        recipe = _with(runs.recipe, "data", subset.data)
        if not runs.force and _is_finished(out, recipe):
            display.say(f"{subset.words}: finished in {out}")
        else:
            display.say(f"{subset.words}: training in {out}")
            summary = train(
                recipe, out, resume=not runs.force and is_resumable(out), force=runs.force,
                command=runs.command, display=display,
            )  # fmt: skip
            if summary.interrupted:
                return None
            if _limits(stored_recipe(out)) != _limits(recipe):  # it has ended earlier
                raise UserError(
                    f"{out}: ended by other limits than the run on all pairs; remove this "
                    "directory, and the same command trains it again"
                )
        display.close()
        outcomes[subset.name] = outcome_of(out)
    return outcomes


def outcome_of(out: Path) -> Outcome:
    """Return the outcome of a finished run."""
    _, config = load_config(out, kinds())
    newest = newest_state(out / CHECKPOINTS)
    if newest is None:
        raise BundleError(f"{out}: has no undamaged checkpoint; train it again")
    return Outcome(newest[1].size, config.scores)


def table_of(outcomes: Mapping[str, Outcome]) -> list[list[str]]:
    """Return names, training pairs and scores as a table with a header."""
    metrics = [score.metric for score in next(iter(outcomes.values())).scores]
    rows = [
        [name, f"{each.pairs:,}", *(score.shown for score in each.scores)]
        for name, each in outcomes.items()
    ]
    return [["run", "pairs", *metrics], *rows]


def write_table(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write the scores as a TSV file with a header."""
    rows = [["run", "pairs", "metric", "score", "low", "high"]] + [
        [name, each.pairs, score.metric, score.value, score.low, score.high]
        for name, each in outcomes.items()
        for score in each.scores
    ]
    atomic_write(path, "".join("\t".join(map(str, row)) + "\n" for row in rows).encode())


def _is_finished(out: Path, recipe: Recipe) -> bool:
    """Return whether a run directory holds a bundle by a recipe; its languages may differ."""
    if not is_run(out) or not (out / CONFIG).is_file():
        return False
    stored = stored_recipe(out)
    now = check_resumed(stored, absolute(recipe), out)
    sections = type(now).model_fields.keys() - {"data"}
    return all(getattr(now, name) == getattr(stored, name) for name in sections)


def _limits(recipe: Recipe) -> dict[str, Any]:
    """Return the limits of a run."""
    return {key: getattr(recipe.train, key) for key in _BUDGET}


def _with(recipe: Recipe, section: str, changes: Mapping[str, Any]) -> Recipe:
    """Return a recipe with other values in a section, checked like any recipe."""
    values = recipe.model_dump()
    values[section] |= changes
    return validate(type(recipe), values)
