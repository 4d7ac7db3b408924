"""A study: a claim, the expectations stated before it is run, and the results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.studies.effort import Effort, Times

Say = Callable[[str], None]
"""Is told, in a line, how far a study has come."""

Run = Callable[[Effort, int, Say], "Result"]
"""Run a study at an effort, drawing from this seed alone."""


@dataclass(frozen=True)
class Band:
    """The expected range of a measured quantity, both ends included, and its reason.

    The range is stated before the study runs, from theory or from the source. It is not changed
    afterwards: a wrong band is a finding.
    """

    name: str
    low: float
    high: float
    why: str

    def holds(self, value: float) -> bool:
        """Return whether `value` is inside; NaN never is."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {number(self.low)}"
        if self.low == -math.inf:
            return f"at most {number(self.high)}"
        if self.high == math.inf:
            return f"at least {number(self.low)}"
        return f"{number(self.low)} to {number(self.high)}"


@dataclass(frozen=True)
class Reported:
    """A quantity that is measured and not judged.

    Attributes:
        name: The name of the quantity.
        why: The reason why nothing is expected of it: no source gives a number, for instance.
    """

    name: str
    why: str


@dataclass(frozen=True)
class Unmeasured:
    """Stands for a quantity that could not be measured: it counts neither for nor against a claim.

    Attributes:
        reason: The precondition that failed, as a clause.
    """

    reason: str


Value = float | Unmeasured


def after_training(effort: Effort, value: float) -> Value:
    """Return a quantity that rests on training, which the quick form does too little of."""
    return Unmeasured("the quick form trains for a few updates only") if effort.quick else value


class Table(NamedTuple):
    """Rows of a table, the first of which are its heads; the first column is words."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    """The measurements of a study."""

    measured: Mapping[str, Value]
    """By the names of the bands and of what is reported."""

    tables: Sequence[Table]
    draw: Callable[[Any], None]
    """Draws the picture into a figure of matplotlib."""

    conclusion: str = ""
    """A sentence that the numbers lead to, shown beside the verdict: where a claim begins to hold,
    for instance."""

    kept: Sequence[Path] = ()
    """The files, a run each, that it rests on and that stay to be found again: JSON, with the
    version that computed it as `crosshead`."""


@dataclass(frozen=True)
class Study:
    """A claim that can be run."""

    name: str
    title: str
    claim: str
    """Quoted."""

    source: str
    bands: tuple[Band, ...]
    run: Run
    times: Times
    reported: tuple[Reported, ...] = ()

    @property
    def quantities(self) -> list[Band | Reported]:
        """Everything that is measured: what is judged first."""
        return [*self.bands, *self.reported]


class Verdict(NamedTuple):
    """The judgement of a claim: names of the bands met and missed, reasons of those unmeasured."""

    met: list[str]
    missed: list[str]
    unmeasured: dict[str, str]

    @property
    def word(self) -> str:
        """The verdict in a few words. What was not measured counts neither for nor against.

        `holds` where every band was met, `holds as far as measured` where some could not be
        measured, `holds in part` where some were missed, else `does not hold`.
        """
        if not self.met and not self.missed:
            return "not measured"
        if not self.met:
            return "does not hold"
        if self.missed:
            return "holds in part"
        return "holds as far as measured" if self.unmeasured else "holds"

    @property
    def met_of_all(self) -> str:
        """The number of bands met, of those measured."""
        return f"{len(self.met)} of {len(self.met) + len(self.missed)}"

    def __str__(self) -> str:
        if not self.met and not self.missed:
            return self.word
        said = f"{self.word}: {self.met_of_all} as expected"
        if self.unmeasured:
            said += f", {len(self.unmeasured)} not measured"
        return f"{said}; not: {', '.join(self.missed)}" if self.missed else said


LEFT_OUT = Unmeasured("this run did not measure it")


def judge(
    bands: Sequence[Band], measured: Mapping[str, Value], reported: Sequence[Reported] = ()
) -> Verdict:
    """Return the verdict that follows from the numbers.

    Raises:
        ValueError: If a measured quantity is in no band and not reported, or is NaN.
    """
    verdict = Verdict([], [], {})
    known = {band.name for band in bands} | {each.name for each in reported}
    for name, value in measured.items():
        if name not in known:
            raise ValueError(f"{name!r} is measured, and no band says what to expect of it")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{name!r} is NaN; say why it is not measured")
    for band in bands:
        value = measured.get(band.name, LEFT_OUT)
        if isinstance(value, Unmeasured):
            verdict.unmeasured[band.name] = value.reason
        else:
            (verdict.met if band.holds(value) else verdict.missed).append(band.name)
    return verdict


def number(value: float) -> str:
    """A number as tables and verdicts show it: three digits that count."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        whole = abs(value) >= 1000 or value == int(value)
        return f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{value:.1e}"
