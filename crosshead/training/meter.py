"""Sums over the updates of a run, for its log and its progress display."""

import time

from crosshead.training.progress import Progress
from crosshead.training.updater import UpdateResult

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
