"""A study: a claim, the expectations stated before it runs, and the results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.studies.effort import Effort, Times
from crosshead.addons.studies.formats import number

Say = Callable[[str], None]
"""Receives a line at a time about the progress of a study."""

Value = float | str
"""A measured number, or the reason, as a clause, why there is none."""


LEARNED = 0.95
"""The accuracy from which on a task counts as learned, unless a study says otherwise."""


@dataclass(frozen=True)
class Band:
    """A quantity, the range expected of it (both ends included), and the reason for the range.

    The range is stated before the study runs and not changed afterwards: a wrong band is a finding.
    """

    name: str
    low: float
    high: float
    why: str

    @property
    def judged(self) -> bool:
        """False for a quantity that may have any value: `why` says why nothing is expected."""
        return self.low > -math.inf or self.high < math.inf

    def holds(self, value: float) -> bool:
        """Return whether the value lies inside; NaN never does."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {number(self.low)}"
        if self.low == -math.inf:
            return f"at most {number(self.high)}"
        if self.high == math.inf:
            return f"at least {number(self.low)}"
        return f"{number(self.low)} to {number(self.high)}"


def reported(name: str, why: str) -> Band:
    """Return a quantity that is measured and not judged."""
    return Band(name, -math.inf, math.inf, why)


class Table(NamedTuple):
    """A table: the first row holds the heads, and the first column words."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    """The measurements of a study, by the names of its bands.

    Attributes:
        draw: Draws the picture into a figure of matplotlib.
        conclusion: A sentence, without its full stop, beside the verdict.
        kept: JSON files of training runs that a later study finds again; each holds the version
            that computed it as `crosshead`.
    """

    measured: Mapping[str, Value]
    tables: Sequence[Table]
    draw: Callable[[Any], None]
    conclusion: str = ""
    kept: Sequence[Path] = ()


@dataclass(frozen=True)
class Study:
    """A claim that can be run: `claim` quotes `source`.

    `run` takes an effort, a seed that decides everything random, and a receiver of progress lines.
    """

    name: str
    title: str
    claim: str
    source: str
    bands: tuple[Band, ...]
    run: Callable[[Effort, int, Say], Result]
    times: Times


class Verdict(NamedTuple):
    """The judgement of a claim: the bands met and missed, and why others are unmeasured."""

    met: list[str]
    missed: list[str]
    unmeasured: dict[str, str]

    @property
    def word(self) -> str:
        """The verdict in a few words. A quantity that was not measured counts for neither side."""
        if not self.met:
            return "does not hold" if self.missed else "not measured"
        if self.missed:
            return "holds in part"
        return "holds as far as measured" if self.unmeasured else "holds"

    @property
    def met_of_all(self) -> str:
        """The number of bands met, out of the bands measured."""
        return f"{len(self.met)} of {len(self.met) + len(self.missed)}"

    def __str__(self) -> str:
        if not self.met and not self.missed:
            return self.word
        unmeasured = f", {len(self.unmeasured)} not measured" if self.unmeasured else ""
        missed = f"; not: {', '.join(self.missed)}" if self.missed else ""
        return f"{self.word}: {self.met_of_all} as expected{unmeasured}{missed}"


def judge(bands: Sequence[Band], measured: Mapping[str, Value]) -> Verdict:
    """Return the verdict that follows from the numbers."""
    known = {band.name for band in bands}
    for name, value in measured.items():
        if name not in known:
            raise ValueError(f"{name!r} is measured but has no expected band; add one")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{name!r} is NaN; say why it is not measured")
    verdict = Verdict([], [], {})
    for band in bands:
        value = value_of(band, measured)
        if not band.judged:
            continue
        if isinstance(value, str):
            verdict.unmeasured[band.name] = value
        else:
            (verdict.met if band.holds(value) else verdict.missed).append(band.name)
    return verdict


def value_of(band: Band, measured: Mapping[str, Value]) -> Value:
    """Return the value of a band's quantity, or the reason why it has none."""
    return measured.get(band.name, "this run did not measure it")


def after_training(
    effort: Effort, values: Mapping[str, float], failed: Mapping[str, str] | None = None
) -> dict[str, Value]:
    """Return quantities that rest on training, except those whose precondition `failed`.

    The quick form trains too little to measure any of them.
    """
    if effort.quick:
        return dict.fromkeys(values, "the quick form trains for a few updates only")
    return {**values, **(failed or {})}
