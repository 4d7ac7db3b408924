"""The runs of `crosshead train` on subsets of the pairs: --curve and --folds."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from crosshead.addons.experiments.data_curve import (
    PICTURE,
    DataCurve,
    curve_folder,
    data_curve,
    draw_data_curve,
)
from crosshead.addons.experiments.data_curve import TABLE as CURVE_TABLE
from crosshead.addons.experiments.folds import TABLE as FOLDS_TABLE
from crosshead.addons.experiments.folds import Folds, cross_validate, folds_folder
from crosshead.addons.experiments.subsets import Outcome, Runs, planned_recipe, table_of
from crosshead.cli.terminal import note, put, table
from crosshead.errors import UserError
from crosshead.recipe.recipe import Recipe
from crosshead.system.progress import Display


def run_subsets(
    out: Path,
    recipe: Recipe,
    *,
    curve: bool,
    folds: int | None,
    force: bool,
    command: str,
    display: Callable[[], Display],
    resume: bool,
) -> bool:
    """Train on the subsets that a finished run needs, and print what they show."""
    runs = Runs(recipe, force, command, display)
    if folds is not None:
        found = cross_validate(out, folds, _planned(out, folds_folder(out, folds), runs, resume))
        if found is None:
            return False
        put(folds_report(found))
    if curve:
        measured = data_curve(out, _planned(out, curve_folder(out), runs, resume))
        if measured is None:
            return False
        put(curve_report(measured, _drawn(measured)))
    return True


def folds_report(folds: Folds) -> str:
    """Return the scores of a cross-validation as a table, and sentences about them."""
    return _report(folds.outcomes, folds.sentences(), [folds.folder / FOLDS_TABLE])


def curve_report(curve: DataCurve, pictures: Sequence[Path]) -> str:
    """Return the scores by the amount of data as a table, and sentences about more data."""
    sentences = [metric.sentence() for metric in curve.metrics]
    return _report(curve.outcomes, sentences, [curve.folder / CURVE_TABLE, *pictures])


def _report(outcomes: dict[str, Outcome], sentences: Sequence[str], files: Sequence[Path]) -> str:
    rows = table_of(outcomes)
    lines = [*sentences, f"Written: {', '.join(map(str, files))}"]
    return "\n" + table(rows, numbers=len(rows[0]) - 1) + "\n" + "".join(f"{x}\n" for x in lines)


def _drawn(curve: DataCurve) -> list[Path]:
    """Draw the curve and return the picture; an error becomes a message."""
    try:
        draw_data_curve(curve)
    except UserError as error:
        note(str(error))
        return []
    return [curve.folder / PICTURE]


def _planned(out: Path, folder: Path, runs: Runs, resume: bool) -> Runs:
    recipe = planned_recipe(out, folder, resume=resume)
    return dataclasses.replace(runs, recipe=recipe)
