"""The progress of a run, which state.json stores in every checkpoint, and its measurement."""

import time
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from crosshead.bundle.origin import ImportOrigin


@dataclass
class Progress:
    """The progress of a run. An alias is the name of a value in state.json."""

    update: int = 0
    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Batches of the current epoch that were used."""
    batches: int = 0
    """Batches in the current epoch; 0 before the run's first epoch begins."""
    seconds: float = 0.0
    """Training time in seconds, over all commands that began or resumed the run."""
    predictions: Annotated[int, Field(alias="target_tokens")] = 0
    """Predictions trained on, such as target tokens."""
    microbatches: Annotated[int, Field(alias="parts")] = 1
    """Microbatches of a batch for each thread and process; more than the recipe's number after
    memory ran out."""
    in_parallel: Annotated[bool, Field(alias="side_by_side")] = True
    """True if microbatches may be computed in parallel; False after memory ran out."""
    skipped: int = 0
    """Updates skipped because a gradient was not finite."""
    best_update: int = 0
    best_score: list[float] | None = None
    """The best score: the value to maximise, then the value that breaks ties."""
    best_average: list[int] = field(default_factory=list)
    """Updates of the checkpoints whose average gave the best weights; empty for single weights."""
    best_alone: list[float] | None = None
    """The best score of single weights, if an average scored best; else None."""
    since_best: int = 0
    """Validations since the best one, after the warm-up."""
    stalled: int = 0
    """The update at which `patience_spent` validations had brought nothing better."""
    patience_spent: int = 0
    """The `patience` that is spent; 0 if none is."""
    validated: int = 0
    """The update of the last validation; -1 if the initial weights of a fine-tuned run have not
    been validated yet."""
    validation_seconds: float = 0.0
    """Duration of the last validation, in seconds; 0 before the first one."""
    interim: int = 0
    """The update of the checkpoint that the next checkpoint replaces; 0 if there is none."""
    log_bytes: int = 0
    """Length of log.jsonl in bytes when the checkpoint was written."""
    longest_input: Annotated[int, Field(alias="longest_source")] = 0
    """Positions of the longest input that the weights have seen, including before fine-tuning."""
    size: Annotated[int, Field(alias="pairs")] = 0
    """Amount of training data, as `Corpus.size`."""
    data_sha256: Annotated[str, Field(alias="text_sha256")] = ""
    """SHA-256 of the training and validation data, from `Corpus.sha256`."""
    commands: list[str] = field(default_factory=list)
    """The command that began the run, and the commands that resumed it, as typed."""
    names: list[str] = field(default_factory=list)
    """The data files, as typed when the run began, or as typed later if they moved."""
    threads: int = 0
    """Threads of each process."""
    processes: int = 1
    accumulate: int = 0
    """The recipe's number of microbatches when `microbatches` was last set from the recipe."""
    skipped_in_a_row: int = 0
    """Consecutive updates, up to now, whose gradients were not finite."""
    recipe: str = ""
    """The recipe as the run directory stores it."""
    own_files: Annotated[list[str], Field(alias="tokenizers")] = field(default_factory=list)
    """Checksums and names of the task's files in the bundle, such as tokenizers, in the format of
    `sha256sum`."""
    minutes_spent: float = 0.0
    """The `max_minutes` that ended training; 0 if no time limit has ended it."""
    bundled: bool = False
    """True if the bundle of this update has been written."""
    stated: list[str] = field(default_factory=list)
    """The keys that the recipe stated although a run can choose them, such as
    `tokenizer.vocab_size`. Empty in checkpoints of older versions."""
    data_fault: str = ""
    """`Corpus.data_fault` of the beginning of the run."""
    planned: int = 0
    """The updates that `max_minutes` allowed at the speed measured before the run; 0 if unknown."""
    tuned: bool = False
    """True if training started from the weights of a bundle."""
    origin: ImportOrigin | None = None
    """The origin of the imported model that training started from, or None."""

    @property
    def epochs(self) -> float:
        """Completed epochs plus the completed fraction of the current epoch."""
        return self.epoch + (self.batch / self.batches if self.batches else 0.0)


@dataclass(frozen=True)
class UpdateResult:
    """The losses of an update and the norm of its gradients."""

    sums: dict[str, float]
    """The sums of the losses by name, over the predictions of the batch."""
    count: int
    """The number of predictions."""
    norm: float | None
    """Norm of the gradients; None if they were not finite and not applied."""

    def row(self, rate: float) -> dict[str, float | None]:
        """Return mean losses, learning rate and gradient norm, by their names in the log."""
        means = {name: value / self.count for name, value in self.sums.items()}
        return {**means, "learning_rate": rate, "gradient_norm": self.norm}


MAX_SKIPPED = 10
"""The number of consecutive updates without finite gradients that ends a run."""


class Window:
    """Sums over the updates since the window was cleared, and their duration."""

    def __init__(self, counter: str) -> None:
        self._counter = counter
        self.clear()

    def clear(self) -> None:
        """Reset all sums and restart the time."""
        self._sums: dict[str, float] = {}
        self._norm = self._rate = 0.0
        self._count = self._finite = 0
        self._since = time.perf_counter()

    def add(self, result: UpdateResult, rate: float) -> None:
        """Add the result of an update and its learning rate."""
        self._count += result.count
        self._rate = rate
        for name in result.sums:
            self._sums.setdefault(name, 0.0)
        if result.norm is not None:
            self._norm = result.norm
            self._finite += result.count
            for name, value in result.sums.items():
                self._sums[name] += value

    def leave_out(self, seconds: float) -> None:
        """Keep time that was not spent on updates out of the speed."""
        self._since += seconds

    @property
    def loss(self) -> str:
        """Mean loss per prediction, with its name, as text.

        With label smoothing it is the negative log-likelihood, which the training curve shows too.
        """
        if not self._finite:
            return "no finite update"
        name = "nll" if self._sums.get("nll", self._sums["loss"]) != self._sums["loss"] else "loss"
        return f"{name} {self._sums[name] / self._finite:.3f}"

    @property
    def speed(self) -> float:
        """Predictions per second."""
        return self._count / (time.perf_counter() - self._since)

    def values(self) -> dict[str, float | None]:
        """Return the values for a line of the log; means are None if no update was finite."""
        return {
            **{
                name: value / self._finite if self._finite else None
                for name, value in self._sums.items()
            },
            f"{self._counter}_per_second": round(self.speed, 1),
            "learning_rate": self._rate,
            "gradient_norm": self._norm if self._finite else None,
        }


class Meter:
    """Measurements of a run: sums over updates, and time since the last restart."""

    def __init__(self, progress: Progress, counter: str) -> None:
        self._progress = progress
        self._began = time.perf_counter()
        self.logged, self.shown = Window(counter), Window(counter)

    def add(self, result: UpdateResult, rate: float) -> bool:
        """Add an update; return False if `MAX_SKIPPED` updates in a row were skipped."""
        progress = self._progress
        progress.predictions += result.count
        self.logged.add(result, rate)
        self.shown.add(result, rate)
        if result.norm is None:
            progress.skipped += 1
            progress.skipped_in_a_row += 1
            return progress.skipped_in_a_row < MAX_SKIPPED
        progress.skipped_in_a_row = 0
        return True

    def elapsed(self) -> float:
        """Return the seconds since the last restart."""
        return time.perf_counter() - self._began

    def restart(self) -> float:
        """Return the seconds since the last restart, and restart the time."""
        elapsed = self.elapsed()
        self._began += elapsed
        return elapsed

    def leave_out(self, seconds: float) -> None:
        """Keep time that was not spent on updates out of the speed."""
        self.logged.leave_out(seconds)
        self.shown.leave_out(seconds)
