"""Descriptions of a run: its opening lines, its model card, and what fine-tuning changed."""

import dataclasses
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle.card import CardFacts, without_place
from crosshead.bundle.config import BundleScore
from crosshead.recipe.toml import to_toml
from crosshead.system.files import real_path
from crosshead.system.progress import counted
from crosshead.tasks.validation import OLD, Metric
from crosshead.training.log import read_log
from crosshead.training.schedule import budget_line
from crosshead.training.setup import Setup
from crosshead.version import __version__


def opening_lines(setup: Setup) -> list[str]:
    """Return the opening lines: data, model, machine, budget, then warnings about the data."""
    recipe, corpus, machine, world = setup.recipe, setup.corpus, setup.machine, setup.context.world
    train = recipe.train
    first, *warnings = corpus.opening(recipe.data)
    return [
        first,
        f"{recipe.model.architecture}, {setup.optimizer.size() / 1e6:.2f} M parameters, "
        + (f"{corpus.facts()}, " if corpus.facts() else "")
        + f"batches of {train.batch_tokens:,} {setup.task.batch_units}, warm-up of "
        + counted(train.warmup or 0, "update")
        + (f" or {train.warmup_share:.0%} of the run if that is less" if train.warmup_share else "")
        + f", validation every {counted(train.valid_every, 'update')}",
        f"on {machine.name}, "
        + (f"{world.size} processes of " if world.size > 1 else "")
        + f"{counted(machine.threads, 'thread')}, {machine.precision} "
        f"({machine.why})",
        budget_line(train),
        *warnings,
    ]


def card_facts(
    setup: Setup, out: Path, weights: str, scores: list[BundleScore], search: str
) -> CardFacts:
    """Return the facts of the model card; files keep their typed names, without absolute paths."""
    recipe, corpus, machine, progress = setup.recipe, setup.corpus, setup.machine, setup.progress
    shown = [without_place(name) for name in progress.names]
    typed = recipe.data.renamed(shown)
    names = dict(zip(recipe.data.files(), shown, strict=True))
    return CardFacts(
        name=real_path(out).name,
        commands=[command for command in progress.commands if command],
        recipe=to_toml(recipe.model_copy(update={"data": typed})),
        files=[dataclasses.replace(file, path=names[file.path]) for file in corpus.files],
        words=setup.task.pipeline.words(corpus.bundle_config(recipe, progress.longest_input)),
        architecture=recipe.model.architecture,
        unit=corpus.unit,
        unit_name=corpus.unit_name,
        size=corpus.size,
        left_out=corpus.left_out(),
        validation=corpus.validation(typed),
        weights=weights,
        parameters=setup.optimizer.size(),
        updates=progress.update,
        epochs=progress.epochs,
        seconds=progress.seconds,
        device=machine.name,
        threads=machine.threads,
        cores=os.cpu_count() or 1,
        precision=machine.precision,
        seed=recipe.train.seed,
        versions={
            "crosshead": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        scores=scores,
        search=search,
        licence=getattr(recipe.data, "license", None),
        origin=str(progress.origin or ""),
        skipped=progress.skipped,
    )


def domain_rows(log: Path, metrics: Sequence[Metric]) -> list[list[str]]:
    """Return how fine-tuning has changed each metric on both domains."""
    measured = [row for row in read_log(log) if row["kind"] in ("valid", "average")]
    chosen = [row for row in measured if row.get("best")]
    if not chosen or measured[0]["update"] != 0:
        return []
    return [
        [domain, _change(measured[0], chosen[-1], metric, prefix)]
        for domain, prefix in (("new domain", ""), ("old domain", OLD))
        for metric in metrics
    ]


def _change(
    before: Mapping[str, Any], after: Mapping[str, Any], metric: Metric, prefix: str
) -> str:
    """Return a metric at update 0 and now, and in which direction it has changed."""
    old, new = (float(row[f"{prefix}{metric.name}"]) for row in (before, after))
    gain = (new - old) * (1 if metric.higher_is_better else -1)
    change = "better" if gain > 0 else "worse" if gain < 0 else "unchanged"
    if max(old, new) <= metric.chance:
        change = "both too low to compare"
    return f"{metric.shown(old)} at update 0, {new:.{metric.digits}f} now: {change}"
