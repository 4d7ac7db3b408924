"""What a study is: a claim, what is expected of it before it is run, and what came out."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Say = Callable[[str], None]
"""Is told, in a line, how far a study has come."""

Run = Callable[[bool, int, Say], "Result"]
"""Run a study, small where the first argument says so, drawing from this seed alone."""


@dataclass(frozen=True)
class Band:
    """Where a measured quantity is expected to be, both ends included, and why.

    Stated before the study is run, from theory or from what the source says. It stays where it is
    afterwards: a band that turns out wrong is a finding.
    """

    name: str
    low: float
    high: float
    why: str

    def holds(self, value: float) -> bool:
        """Whether `value` is inside; NaN never is."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {number(self.low)}"
        if self.low == -math.inf:
            return f"at most {number(self.high)}"
        if self.high == math.inf:
            return f"at least {number(self.low)}"
        return f"{number(self.low)} to {number(self.high)}"


class Table(NamedTuple):
    """Rows of a table, the first of which are its heads; the first column is words."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    """What a study found."""

    measured: Mapping[str, float]
    """By the names of the bands; what could not be measured is missing or NaN."""

    tables: Sequence[Table]
    draw: Callable[[Any], None]
    """Draws the picture into a figure of matplotlib."""

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


class Verdict(NamedTuple):
    """What the numbers say of a claim: the names of the bands that were met, and of the others."""

    met: list[str]
    missed: list[str]
    unmeasured: list[str]

    @property
    def word(self) -> str:
        """`holds` where every band was met, `holds in part` where some were, else not.

        A band whose quantity was not measured is not met; where none was, nothing is said.
        """
        if not self.met and not self.missed:
            return "not measured"
        if not self.met:
            return "does not hold"
        return "holds in part" if self.missed or self.unmeasured else "holds"

    @property
    def met_of_all(self) -> str:
        """How many bands were met, of how many there are."""
        return f"{len(self.met)} of {len(self.met) + len(self.missed) + len(self.unmeasured)}"

    def __str__(self) -> str:
        said = f"{self.word}: {self.met_of_all} as expected"
        for what, names in (("not", self.missed), ("not measured", self.unmeasured)):
            if names:
                said += f"; {what}: {', '.join(names)}"
        return said


def judge(bands: Sequence[Band], measured: Mapping[str, float]) -> Verdict:
    """The verdict that follows from the numbers.

    Raises `ValueError` for a measured quantity that no band expects.
    """
    verdict = Verdict([], [], [])
    for name in measured:
        if name not in {band.name for band in bands}:
            raise ValueError(f"{name!r} is measured, and no band says what to expect of it")
    for band in bands:
        value = measured.get(band.name, math.nan)
        if math.isnan(value):
            verdict.unmeasured.append(band.name)
        else:
            (verdict.met if band.holds(value) else verdict.missed).append(band.name)
    return verdict


def number(value: float) -> str:
    """A number as tables and verdicts show it: three digits that count."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        whole = abs(value) >= 1000 or value == int(value)
        return f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{value:.1e}"
