"""Effort: the part of a study's full form that is run, and the time that this part takes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """The seconds that a study takes, for `study list` and `--minutes`: two cores of an AMD EPYC.

    The full time comes from the recorded run (`seconds` in NAME.json). If the study has changed
    since, it is in proportion, or estimated from the size of the computations; a comment says so.
    The quick time was taken with one thread beside other work.
    """

    quick: float
    full: float


@dataclass(frozen=True)
class Effort:
    """The part of a study's full form that is run.

    Attributes:
        share: 0 is the quick form, 1 the full form. Between them stand the shortened forms, which
            have the full form's models and seeds, and fewer updates, minutes or rounds.
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
        if self.quick:
            return (
                "quick form: it shows that the code runs; its verdict says nothing about the claim"
            )
        return (
            f"{self.form}: fewer updates and sizes; a task not learned here may be learned in the "
            "full form"
        )

    def amount(self, quick: int, full: int) -> int:
        """Return an amount between the quick form and the full form, by the share."""
        return round(quick + self.share * (full - quick))


QUICK, FULL = Effort(0.0), Effort(1.0)


def seeds_of(effort: Effort, seed: int, number: int = 2) -> list[int]:
    """Return the seeds of a study's runs: one in the quick form, else `number` of them."""
    return [1000 * seed + each for each in range(1 if effort.quick else number)]


def effort_within(minutes: float, times: Sequence[Times]) -> Effort:
    """Return the effort at which studies with these times together take the given minutes.

    All studies get the same share. Minutes beyond the full form give the full form, and minutes
    below the quick form the quick form.
    """
    quick, full = sum(each.quick for each in times), sum(each.full for each in times)
    if 60 * minutes >= full:
        return FULL
    return Effort(max(0.0, (60 * minutes - quick) / (full - quick)))


def minutes_of(effort: Effort, times: Times) -> float:
    """Return the minutes that a study takes at an effort: the inverse of `effort_within`."""
    return (times.quick + effort.share * (times.full - times.quick)) / 60


def duration(seconds: float) -> str:
    """Format a time as people say it: `6 s`, `3 min`, `1 h 25 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
