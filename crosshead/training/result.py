"""The result of a run: the chosen weights, their scores, the bundle, and the summary."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.card import model_card
from crosshead.bundle.config import BundleScore
from crosshead.bundle.hub_names import bundle_shown
from crosshead.bundle.io import save_bundle
from crosshead.caller import setting
from crosshead.errors import UserError
from crosshead.system.progress import counted
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.usability import Findings
from crosshead.tasks.validation import Metric, Validator
from crosshead.training.budget import STOPPED, End, EndKind
from crosshead.training.checkpoint import save_state
from crosshead.training.choice import ChosenWeights, choose_weights
from crosshead.training.context import Context
from crosshead.training.directory import PICTURE, drop_replaced
from crosshead.training.directory_lock import LockedDirectory
from crosshead.training.domains import domain_rows
from crosshead.training.log import LOG
from crosshead.training.loop import MainProcess
from crosshead.training.progress import Progress
from crosshead.training.setup import Setup
from crosshead.training.summary import card_facts
from crosshead.training.training_curve import draw_training_curve
from crosshead.training.verdict import improvement, verdict, warmup_fault


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


class _Result(NamedTuple):
    """The chosen weights of a run, and the findings about them."""

    choice: ChosenWeights
    findings: Findings
    search: str
    """A short description of the search, or of the reading, behind the scores."""


def finish(
    setup: Setup,
    validator: Validator[Any, Any, Any],
    main: MainProcess,
    lock: LockedDirectory,
    end: End,
) -> Summary:
    """Choose the weights, score them, and write the bundle and the picture of the run.

    A run that is or was asked to stop gets no bundle.
    """
    out, progress, context = lock.path, setup.progress, setup.context
    try:
        if end == STOPPED:
            raise Stopped
        lock.check()
        context.say("scoring the weights on the validation set")
        choice = choose_weights(setup.task, setup.recipe.train, progress, main, validator, context)
        findings = validator.findings(choice.weights)
        remarks = [*_no_gain(setup), *findings.remarks]
        findings = dataclasses.replace(findings, remarks=remarks)
    except Stopped:
        return Summary(out, STOPPED, progress, setup.optimizer.size())
    if not progress.tuned:
        findings.advice.extend(setup.task.advice_for_few(setup.corpus, out))
    without_fault = not findings.is_usable and not findings.faults
    if without_fault and (progress.data_fault or not progress.tuned):
        better = improvement(setup.task, setup.recipe.train, progress, end, out)
        findings.remarks.append(f"{better[:1].upper()}{better[1:]}.")
    if findings.is_usable and not findings.faults and progress.data_fault:
        findings.remarks.append(f"The scores may hide a fault of the data: {progress.data_fault}.")
    result = _Result(choice, findings, validator.search_description())
    _write_bundle(setup, validator, lock, result)
    _log_end(setup, end, result)
    _plot(out, setup.task.metrics, context)
    progress.bundled = True
    save_state(main.directory, progress)
    faults = [*warmup_fault(setup.recipe.train, progress, findings), *findings.faults]
    return _summary(setup, out, end, result, faults)


def _no_gain(setup: Setup) -> list[str]:
    """Return a sentence if fine-tuning has found no better weights than those it began with."""
    progress = setup.progress
    if not progress.tuned or progress.best_update or progress.best_average:
        return []
    bundle = "the bundle that it began with" if setup.start is None else bundle_shown(setup.start)
    return [
        f"Fine-tuning improved nothing in {counted(progress.update, 'update')}: the weights are "
        f"those of {bundle}; try a lower learning rate ({setting('train.learning_rate')})."
    ]


def _write_bundle(
    setup: Setup, validator: Validator[Any, Any, Any], lock: LockedDirectory, result: _Result
) -> None:
    """Write the bundle of the chosen weights, which replaces the bundle of an earlier run."""
    scores = result.findings.scores
    bundle = validator.bundle_of(result.choice.weights)
    bundle = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"scores": scores}))
    facts = card_facts(setup, lock.path, result.choice.clause, scores, result.search)
    lock.check()
    save_bundle(lock.path, bundle, model_card(facts))
    drop_replaced(lock.path)


def _log_end(setup: Setup, end: End, result: _Result) -> None:
    """Write the last line of the log, and show how many updates were left out."""
    progress, context = setup.progress, setup.context
    context.write(
        "end",
        progress.update,
        epoch=progress.epoch,
        seconds=round(progress.seconds, 2),
        **{setup.task.counter: progress.predictions},
        reason=end.text,
        weights=result.choice.clause,
        search=result.search,
        **{score.metric.lower().replace(" ", "_"): score.value for score in result.findings.scores},
    )
    if progress.skipped:
        context.say(f"{progress.skipped} updates were left out: their gradients were not finite")


def _plot(out: Path, metrics: Sequence[Metric], context: Context) -> None:
    """Draw the training curve; an error becomes a message, because the bundle is already saved."""
    try:
        damaged = draw_training_curve(out / LOG, out / PICTURE, metrics)
    except UserError as error:
        context.say(str(error))
        return
    except Exception as error:  # an error inside matplotlib must not fail the run
        context.say(f"no {PICTURE}: {type(error).__name__} ({' '.join(str(error).split())})")
        return
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        context.say(
            f"{out / LOG}: {counted(len(damaged), 'damaged line')} left out of {PICTURE}: {shown}"
        )


def _summary(setup: Setup, out: Path, end: End, result: _Result, faults: Sequence[str]) -> Summary:
    config = setup.corpus.bundle_config(setup.recipe, setup.progress.longest_input)
    return Summary(
        out,
        end,
        setup.progress,
        setup.optimizer.size(),
        result.choice.clause,
        result.findings.scores,
        result.search,
        task=setup.task,
        usage=setup.task.pipeline.usage_of(config),
        validated=result.choice.validated,
        domains=(
            domain_rows(out / LOG, setup.task.metrics)
            if setup.recipe.data.has_old_validation
            else ()
        ),
        findings=result.findings,
        left_out=setup.corpus.left_out(),
        unit=setup.corpus.unit,
        verdict=verdict(faults, setup.task, setup.recipe.train, setup.progress, end, out),
    )
