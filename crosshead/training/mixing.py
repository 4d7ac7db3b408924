"""The data of an earlier run that fine-tuning mixes in."""

from collections.abc import Callable, Iterable
from pathlib import Path

from crosshead.bundle.places import RECIPE
from crosshead.caller import option, setting
from crosshead.errors import UserError
from crosshead.text.parallel.corpora import training_parts
from crosshead.text.parallel.filters import HELD_OUT, read_held_out
from crosshead.text.parallel.held_out import hold_out
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.parallel.parts import survey
from crosshead.text.parallel.section import TRAIN, VALID, DataConfig
from crosshead.training.settings import stored_recipe

Write = Callable[[str, Iterable[str]], str]
"""A function that writes lines to a file of a given kind, and returns its name."""


def old_domain(run: Path, write: Write) -> dict[str, list[str]]:
    """Return the keys of `[data]` that mix in the files of an earlier run.

    If its validation pairs were held out of its training files, they are written to files. Training
    leaves out the old pairs that are among them.
    """
    if not (run / RECIPE).is_file():
        raise UserError(f"{run}: holds no {RECIPE}; name the directory of a run to mix in")
    recipe = stored_recipe(run)
    data = recipe.data
    if not isinstance(data, DataConfig) or not (data.source or data.pairs):
        raise UserError(f"{run}: was not trained on pairs of texts; name another run to mix in")
    found = {f"old_{key}": list(getattr(data, key)) for key in (*TRAIN, *VALID)}
    if found["old_pairs"] or found["old_valid_pairs"]:
        found["old_fields"] = list(data.fields) or ["1", "2"]
    if found["old_valid_source"] or found["old_valid_pairs"]:
        return found
    pairs = _held_out(run, data, recipe.train.seed)
    # JSON Lines may hold line breaks, which a file of lines cannot.
    rows = [
        row
        for row, sides in enumerate(zip(pairs.source, pairs.target, strict=True))
        if not any("\n" in side for side in sides)
    ]
    for key, side in (("old_valid_source", pairs.source), ("old_valid_target", pairs.target)):
        found[key] = [write("valid.txt", (side[row] for row in rows))]
    return found


def _held_out(run: Path, data: DataConfig, seed: int) -> ParallelText:
    """Return the pairs that an earlier run has held out for validation."""
    keys = ("old_source", "old_target", "old_valid_source", "old_valid_target")
    given = " ".join(setting(f"data.{key}", key.upper()) for key in keys)
    advice = f"in place of {option('mix')}, name files of its domain: {given}"
    if data.directions != "one":
        raise UserError(f"{run}: its model has several directions; {advice}")
    held = hold_out(survey(training_parts(data)), data, seed)
    if [origin.line for origin in held.valid.origins] != read_held_out(run / HELD_OUT):
        raise UserError(
            f"{run}: its held-out pairs are not found again, because its training files or "
            f"{HELD_OUT} changed; {advice}"
        )
    return held.valid
