"""A study: a claim, the expectations stated before it runs, a run of it, and its results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crosshead.addons.studies.charts import Sheet, Table, number

Say = Callable[[str], None]
"""Receives a line at a time about the progress of a study."""

Value = float | str
"""A measured number, or the reason, as a clause, why there is none."""


CAVEAT = "quick form: it shows that the code runs, and judges nothing"
"""The limit of the quick form, as pages and pictures show it."""


def duration(seconds: float) -> str:
    """Format a time as people say it: `6 s`, `3 min`, `1 h 25 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    shown = [f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0)
    return " ".join(shown)


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


@dataclass(frozen=True)
class Result:
    """The measurements of a study, by the names of its bands; a band may be left out.

    Sheets become tables and pictures; `tables` are those that no sheet has.
    """

    measured: Mapping[str, Value]
    sheets: Sequence[Sheet] = ()
    tables: Sequence[Table] = ()

    @property
    def all_tables(self) -> list[Table]:
        """The tables, those of the sheets included."""
        return [*(each.table for each in self.sheets if each.listed), *self.tables]


@dataclass(frozen=True)
class Trial:
    """A run of a study: its form, a seed that decides everything random, and a receiver of lines.

    `folder` holds what a later run finds again; in the quick form it is temporary. `kept` tells of
    each file whether it was there before.
    """

    quick: bool
    seed: int
    say: Say
    folder: Path
    kept: dict[Path, bool] = field(default_factory=dict)

    def keeps(self, file: Path) -> None:
        """Note a file that a later run finds again."""
        self.kept.setdefault(file, file.is_file())

    def amount(self, quick: int, full: int) -> int:
        """Return the amount of the form."""
        return quick if self.quick else full

    def seeds(self, number: int = 2) -> list[int]:
        """Return the seeds of the models: one in the quick form, else `number` of them."""
        return [1000 * self.seed + each for each in range(1 if self.quick else number)]


@dataclass(frozen=True)
class Study:
    """A claim that can be run: `claim` quotes `source`.

    `seconds` is the time of the full form on two cores of an AMD EPYC. It comes from the recorded
    run; if the study has changed since, it is in proportion, or estimated.
    """

    name: str
    title: str
    claim: str
    source: str
    bands: tuple[Band, ...]
    run: Callable[[Trial], Result]
    seconds: float


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
    if unknown := set(measured) - {band.name for band in bands}:
        raise ValueError(f"{', '.join(unknown)!r} is measured but has no expected band; add one")
    verdict = Verdict([], [], {})
    for band in bands:
        value = value_of(band, measured)
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{band.name!r} is NaN; say why it is not measured")
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
