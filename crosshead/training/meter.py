"""Sums over the updates of a run: for its log, and for whoever watches it."""

import time

from crosshead.training.checkpoint import Progress
from crosshead.training.updater import Outcome

MAX_SKIPPED = 10
"""So many updates in a row without finite gradients end a run."""


class Window:
    """Sums over the updates since it was cleared, and the time that they took."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew, from now on."""
        self._loss = self._nll = self._norm = self._rate = 0.0
        self._tokens = self._counted = 0
        self._since = time.perf_counter()

    def add(self, outcome: Outcome, rate: float) -> None:
        """Count an update that was made at a learning rate."""
        self._tokens += outcome.tokens
        self._rate = rate
        if outcome.norm is not None:
            self._norm = outcome.norm
            self._counted += outcome.tokens
            self._loss += outcome.loss
            self._nll += outcome.nll

    def leave_out(self, seconds: float) -> None:
        """Keep time that was not spent on updates out of the speed."""
        self._since += seconds

    @property
    def loss(self) -> float | None:
        """The mean loss of a target token; None where no update was finite."""
        return self._loss / self._counted if self._counted else None

    @property
    def speed(self) -> float:
        """Target tokens a second."""
        return self._tokens / (time.perf_counter() - self._since)

    def values(self) -> dict[str, float | None]:
        """The means for a line of the log; None where no update was finite."""
        return {
            "loss": self.loss,
            "nll": self._nll / self._counted if self._counted else None,
            "target_tokens_per_second": round(self.speed, 1),
            "learning_rate": self._rate,
            "gradient_norm": self._norm if self._counted else None,
        }


class Meter:
    """Measurements of a run: sums over updates, and time since the last restart."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began = time.perf_counter()
        self.logged, self.shown = Window(), Window()

    def add(self, outcome: Outcome, rate: float) -> bool:
        """Count an update; whether to go on: not after `MAX_SKIPPED` in a row that were skipped."""
        progress = self._progress
        progress.target_tokens += outcome.tokens
        self.logged.add(outcome, rate)
        self.shown.add(outcome, rate)
        if outcome.norm is None:
            progress.skipped += 1
            progress.skipped_in_a_row += 1
            return progress.skipped_in_a_row < MAX_SKIPPED
        progress.skipped_in_a_row = 0
        return True

    def elapsed(self) -> float:
        """Seconds since the last restart."""
        return time.perf_counter() - self._began

    def restart(self) -> float:
        """Seconds since the last restart; counting begins anew."""
        elapsed = self.elapsed()
        self._began += elapsed
        return elapsed

    def leave_out(self, seconds: float) -> None:
        """Keep time that was not spent on updates out of the speed."""
        self.logged.leave_out(seconds)
        self.shown.leave_out(seconds)
