"""Effort: the part of a study's full form that is run, and the time that it takes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """The part of a study's full form that is run.

    `share` is 0 in the quick form and 1 in the full form. Between them stand the shortened forms,
    which have the full form's models and seeds, and fewer updates, minutes or rounds.
    """

    share: float

    @property
    def quick(self) -> bool:
        """True for the quick form."""
        return self.share == 0

    @property
    def full(self) -> bool:
        """True for the full form."""
        return self.share == 1

    @property
    def form(self) -> str:
        """The name of the form, as pages and pictures show it."""
        if self.quick:
            return "quick form"
        percent = min(99, 100 * self.share)
        return "full form" if self.full else f"shortened form ({percent:.2g}% of the full form)"

    @property
    def folder(self) -> str:
        """The folder inside `studies` for results of this form; empty for the full form."""
        return "" if self.full else "quick" if self.quick else "shortened"

    @property
    def caveat(self) -> str:
        """The limits of a verdict at this effort; empty for the full form."""
        if self.full:
            return ""
        limit = (
            "it shows that the code runs; its verdict says nothing about the claim"
            if self.quick
            else "fewer updates and sizes; a task not learned here may be learned in the full form"
        )
        return f"{self.form}: {limit}"


QUICK, FULL = Effort(0.0), Effort(1.0)


def effort_within(minutes: float, seconds: Sequence[float]) -> Effort:
    """Return the effort at which studies of these full times together take the given minutes."""
    return Effort(min(1.0, 60 * minutes / sum(seconds)))


def duration(seconds: float) -> str:
    """Format a time as people say it: `6 s`, `3 min`, `1 h 25 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    shown = [f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0)
    return " ".join(shown)
