"""The result of a run: the chosen weights, their scores, the bundle, and the summary."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from crosshead.bundle.card import model_card
from crosshead.bundle.config import BundleScore
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import CHECKPOINTS
from crosshead.caller import how_to_resume, option, setting
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import Metric, Validator
from crosshead.training.checkpoint import (
    average_weights,
    list_checkpoints,
    load_best,
    load_weights,
    save_best,
    save_state,
)
from crosshead.training.context import Context
from crosshead.training.directory import PICTURE, LockedDirectory, drop_replaced
from crosshead.training.log import LOG, draw_training_curve
from crosshead.training.progress import Progress
from crosshead.training.schedule import STOPPED, End, EndKind
from crosshead.training.setup import Setup
from crosshead.training.summary import card_facts, domain_rows


@dataclass(frozen=True)
class Summary:
    """The end of a run: its reason, scores and findings."""

    out: Path
    end: End
    progress: Progress
    parameters: int = 0
    weights: str = ""
    """A description of the chosen weights; empty if no bundle was written."""
    scores: Sequence[BundleScore] = ()
    search: str = ""
    """A short description of the search, or of the reading, behind the scores."""
    task: Task | None = None
    """The task of the model; None if no bundle was written."""
    usage: str = ""
    """A line on how to use the bundle: see `Pipeline.usage_of`. Empty if no bundle was written."""
    validated: Mapping[str, float] = field(default_factory=dict)
    """The metrics of the weights, as validation during training measures them."""
    domains: Sequence[Sequence[str]] = ()
    """Rows of a domain and its change since update 0, in fine-tuning with an old domain."""
    findings: Findings | None = None
    """Findings about the model at the end."""
    verdict: str = ""
    """The reason why the model is not usable yet, and what to do; empty for a usable model."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of rows left out of training, by reason."""
    unit: str = "row"
    """The noun for a row of the data."""
    bundle_kept: bool = False
    """True if the run had ended before, and its bundle was left unchanged."""
    rank: int = 0
    """The rank of this process. Rank 0 is the main process, which prints more than workers do."""

    @property
    def reason(self) -> str:
        """The reason for the end, in a clause."""
        return self.end.text

    @property
    def interrupted(self) -> bool:
        """True if the run was asked to stop.

        It then writes no bundle, and keeps a checkpoint if it has made an update.
        """
        return self.end.kind is EndKind.STOPPED

    def left_behind(self, resume: str) -> str:
        """Return a line about an end before its time: how to continue, or that nothing is left."""
        if not self.interrupted:
            return f"ended, and the bundle is saved: {self.out}"
        if self.progress.update == 0:
            holds_one = self.out.exists() and any(self.out.iterdir())
            left = "the earlier run is restored" if holds_one else "nothing is left"
            return f"stopped before the first update: {left} in {self.out}"
        return f"stopped at update {self.progress.update} and saved; resume with: {resume}"

    def __repr__(self) -> str:
        """Return a short description, for a notebook."""
        parts = [str(self.out), f"update {self.progress.update:,}", self.reason]
        parts += [f"{score.metric} {score.value:.2f}" for score in self.scores]
        if self.verdict:
            parts.append("not usable yet (see verdict)")
        return f"<Summary: {', '.join(parts)}>"


def finish(
    setup: Setup, validator: Validator[Any, Any, Any], lock: LockedDirectory, end: End
) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run.

    A run that is or was asked to stop gets no bundle.
    """
    out, task, progress, context = lock.path, setup.task, setup.progress, setup.context
    try:
        if end == STOPPED:
            raise Stopped
        lock.check()
        context.say("scoring the weights on the validation set")
        choice = choose_weights(setup, validator)
        findings = _with_advice(validator.findings(choice.weights), setup, end, out)
    except Stopped:
        return Summary(out, STOPPED, progress, setup.optimizer.size())
    config = setup.corpus.bundle_config(setup.recipe, progress.longest_input)
    has_old = setup.recipe.data.has_old_validation
    summary = Summary(
        out,
        end,
        progress,
        setup.optimizer.size(),
        choice.clause,
        findings.scores,
        validator.search_description(),
        task=task,
        usage=task.pipeline.usage_of(config),
        validated=choice.validated,
        domains=domain_rows(out / LOG, task.metrics) if has_old else (),
        findings=findings,
        left_out=setup.corpus.left_out(),
        unit=setup.corpus.unit,
        verdict=verdict(setup, findings.faults, end, out),
    )
    _write_bundle(setup, validator, lock, choice.weights, summary)
    _log_end(setup, summary)
    _plot(out, task.metrics, context)
    progress.bundled = True
    save_state(out / CHECKPOINTS, progress)
    return summary


def _with_advice(findings: Findings, setup: Setup, end: End, out: Path) -> Findings:
    """Return findings with remarks that follow from the run and its data."""
    progress, remarks = setup.progress, [*_no_gain(setup), *findings.remarks]
    if findings.faults:  # the verdict names them, with the same advice
        return dataclasses.replace(findings, remarks=remarks)
    if findings.is_usable and progress.data_fault:
        remarks.append(f"The scores may hide a fault of the data: {progress.data_fault}.")
    if not findings.is_usable and (progress.data_fault or not progress.tuned):
        better = improvement(setup, end, out)
        remarks.append(f"{better[:1].upper()}{better[1:]}.")
    return dataclasses.replace(findings, remarks=remarks)


def _no_gain(setup: Setup) -> list[str]:
    """Return a sentence if fine-tuning has found no better weights than those it began with."""
    progress = setup.progress
    if not progress.tuned or progress.best_update or progress.best_average:
        return []
    return [
        f"Fine-tuning improved nothing in {counted(progress.update, 'update')}: the weights are "
        f"those that it began with; try a lower learning rate ({setting('train.learning_rate')})."
    ]


def _write_bundle(
    setup: Setup,
    validator: Validator[Any, Any, Any],
    lock: LockedDirectory,
    weights: dict[str, Tensor],
    summary: Summary,
) -> None:
    """Write the bundle of the chosen weights, which replaces the bundle of an earlier run."""
    scores, bundle = list(summary.scores), validator.bundle_of(weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(setup, lock.path, summary.weights, scores, summary.search)
    lock.check()
    save_bundle(lock.path, bundle, model_card(facts))
    drop_replaced(lock.path)


def _log_end(setup: Setup, summary: Summary) -> None:
    """Write the last line of the log, and show how many updates were left out."""
    progress, context = setup.progress, setup.context
    context.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        **{setup.task.counter: progress.predictions},
        reason=summary.reason,
        weights=summary.weights,
        search=summary.search,
        **{score.metric.lower().replace(" ", "_"): score.value for score in summary.scores},
    )
    if progress.skipped:
        context.say(f"{progress.skipped} updates were left out: their gradients were not finite")


def _plot(out: Path, metrics: Sequence[Metric], context: Context) -> None:
    """Draw the training curve; an error becomes a message, because the bundle is already saved."""
    try:
        draw_training_curve(out / LOG, out / PICTURE, metrics)
    except Exception as error:  # an error inside matplotlib must not fail the run
        context.say(f"no {PICTURE}: {' '.join(str(error).split())}")


_MANY_UPDATES, _MANY_EPOCHS = 5000, 50
"""After so many updates or epochs, more of them do not help a model that is not usable. A run of 98
epochs on 135 pairs was once told to train longer."""

_MADE = 0.5
"""A run that made a smaller share of its planned updates says nothing about its data. A run on a
busy machine was once told to check its data."""

_LONGER = 4
"""The advised run has at least this many times the budget of the run that was too short."""

_LEAST = {EndKind.MAX_UPDATES: 1000, EndKind.MAX_EPOCHS: 10, EndKind.MAX_MINUTES: 5}
"""The smallest budget that is advised, so that a run of seconds gets one advice and not three."""


def verdict(setup: Setup, faults: Sequence[str], end: End, out: Path) -> str:
    """Return a line that says why a model is not usable yet and what to do, or an empty string."""
    if not faults:
        return ""
    why = " and ".join(faults)
    return f"this model is not usable yet: {why}; {improvement(setup, end, out)}"


def improvement(setup: Setup, end: End, out: Path) -> str:
    """Return a clause that says what would make a better model: other data, more data, more time.

    It also stands as a sentence of its own.
    """
    config, progress = setup.recipe.train, setup.progress
    if progress.data_fault:
        return f"the likely cause is the data: {progress.data_fault}"
    epochs = config.max_epochs and config.max_epochs * progress.batches
    planned = min(filter(None, (config.max_updates, epochs, progress.planned)), default=0)
    is_long = progress.update >= _MANY_UPDATES or progress.epochs >= _MANY_EPOCHS
    if end.kind is EndKind.PATIENCE or (is_long and progress.update >= _MADE * planned):
        return f"{setup.task.check_data}, or train on more data"
    budget = math.ceil(_LONGER * getattr(config, end.kind))
    larger = setting(f"train.{end.kind}", max(budget, _LEAST[end.kind]), has_flag=True)
    if config.cooldown:
        # The learning rate has fallen to 0, so a resumed run would learn nothing.
        return f"train longer: begin this run again with {option('force')} and {larger}"
    return f"train longer: {how_to_resume(out, larger)}"


class ChosenWeights(NamedTuple):
    """The weights that validated best."""

    weights: dict[str, Tensor]
    clause: str
    """A description of the weights, for the log and the model card."""
    validated: dict[str, float]
    """The validation metrics of the weights, by name."""


def choose_weights(setup: Setup, validator: Validator[Any, Any, Any]) -> ChosenWeights:
    """Return the best weights so far or the average of the last checkpoints, whichever is better.

    The average is one of the weights of single updates, also with a moving average (`train.ema`).
    If it validates better, it is saved as the best weights so far. A run that is resumed
    with a larger budget therefore never ends with worse validated weights.
    """
    task, config, progress = setup.task, setup.recipe.train, setup.progress
    context, main = setup.context, setup.context.main
    assert main is not None
    best, chosen = load_best(main.directory), config.metric or task.chooses
    last = list_checkpoints(main.directory)[-config.average :] if config.average > 1 else []
    if len(last) < 2 or progress.best_score is None:
        return _best(task, best, config, progress)
    averaged = average_weights([load_weights(place) for place in last])
    found, updates = validator.validate(averaged), [update_of(place) for place in last]
    score = found.score(task.metrics, chosen)
    is_new = found.is_better(score, progress.best_score, task.metrics, chosen)
    is_best = is_new or updates == progress.best_average
    context.write(
        "average",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        weights=_name(updates),
        **found.values,
        best=is_best,
    )
    context.say(
        f"{_name(updates)}: {found.clause(task.metrics)}{'  (best so far)' if is_best else ''}"
    )
    if not is_new:
        return _best(task, best, config, progress)
    if progress.best_alone is None:
        progress.best_alone = progress.best_score
    progress.best_score, progress.best_update = score, progress.update
    progress.best_average = updates
    save_best(main.directory, averaged, main.settings, progress.update)
    save_state(main.directory, progress)
    return _best(task, averaged, config, progress)


def update_of(checkpoint: Path) -> int:
    """Return the update of a checkpoint, from its name."""
    return int(checkpoint.name.removeprefix("update-"))


def _best(
    task: Task, weights: dict[str, Tensor], config: TrainConfig, progress: Progress
) -> ChosenWeights:
    """Return the best weights so far, with their description and metrics from `progress`."""
    chosen = config.metric or task.chooses
    ordered = sorted(task.metrics, key=lambda metric: metric.name != chosen)
    validated = {
        metric.name: value if metric.higher_is_better else -value
        for metric, value in zip(ordered, progress.best_score or [], strict=False)
    }
    if progress.best_average:
        return ChosenWeights(weights, _name(progress.best_average), validated)
    label, search = ordered[0].label, ordered[0].search
    if validated[chosen] <= ordered[0].chance and len(ordered) > 1:
        label, search = ordered[1].label, ordered[1].search
    name = f"{label} ({search})" if search else label
    clause = f"the best validation {name}, at update {progress.best_update}"
    if config.ema:
        clause += f", as a moving average of decay {config.ema:g}"
    if not progress.best_update:
        clause += " (the initial weights)"
    return ChosenWeights(weights, clause, validated)


def _name(updates: Sequence[int]) -> str:
    return f"the average of {len(updates)} checkpoints, updates {updates[0]} to {updates[-1]}"
