"""Windows of one or several series: periods of time, scaling, and batches.

Axes: `B` windows, `S` context steps, `T` steps of the horizon, `I` columns that are read, the
`C` columns to forecast first, `K` features known ahead: the calendar, and columns of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from crosshead.addons.series.reading import Series
from crosshead.addons.series.steps import Step, calendar, shown_time
from crosshead.errors import DataError
from crosshead.system.progress import counted
from crosshead.text.batching import EqualRows

MOST_DEVIATIONS = 1e12
"""The largest scaled value, so that squares of errors are numbers in float32."""


class Scale(NamedTuple):
    """The mean and the standard deviation of each column of the training period."""

    mean: np.ndarray
    deviation: np.ndarray

    def first(self, columns: int) -> "Scale":
        """Return the scale of the first columns."""
        return Scale(self.mean[:columns], self.deviation[:columns])

    def centred(self) -> "Scale":
        """Return the scale with the deviation 1 for constant columns."""
        return Scale(self.mean, np.where(self.deviation > 0, self.deviation, 1.0))

    def scaled(self, values: np.ndarray) -> Any:
        """Return values with mean 0 and deviation 1 in the training period."""
        return (values - self.mean) / self.deviation

    def unscaled(self, values: np.ndarray) -> Any:
        """Return scaled values, `... C`, in their original units."""
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class SeriesBatch:
    """Windows of a series, scaled."""

    context: Float[Tensor, "B S I"]
    """The past of all columns."""
    known: Float[Tensor, "B _ K"]
    """Features of the past and of the horizon that are known ahead, "B S+T K"."""
    target: Float[Tensor, "B T C"]
    """The values to forecast."""
    observed: Bool[Tensor, "B T C"]
    """True where a target counts: it was not missing in the file."""

    @property
    def count(self) -> int:
        """The number of values to forecast."""
        return int(self.observed.sum())

    def to(self, device: torch.device) -> "SeriesBatch":
        """Return the batch on a device."""
        parts = (self.context, self.known, self.target, self.observed)
        return SeriesBatch(*(each.to(device) for each in parts))


@dataclass(frozen=True)
class SeriesWindows(EqualRows):
    """Windows of series; also the epoch that training reads them from."""

    values: Float[Tensor, "rows I"]
    """All series, one below the other, scaled."""
    observed: Bool[Tensor, "rows I"]
    known: Float[Tensor, "rows K"]
    """Features of all rows that are known ahead."""
    parts: Sequence[tuple[Series, Scale]]
    """Each series, and the scale of its columns."""
    begins: np.ndarray
    """The first row of each series."""
    starts: np.ndarray
    """The first row of each window's context."""
    series: np.ndarray
    """The number of each window's series."""
    context: int
    horizon: int
    targets: int
    """The number of columns to forecast."""
    row, bound, units = "window", "data.context", "values"

    def between(self, first: Any, end: Any) -> "SeriesWindows":
        """Return the windows whose horizon lies in the rows from `first` to before `end`.

        Their context may begin earlier. Their horizon has an observed value to forecast.
        """
        first, end = (np.broadcast_to(each, self.begins.shape) for each in (first, end))
        counts = np.append(0, self.observed[:, : self.targets].any(dim=1).numpy().cumsum())
        ahead = self.starts + self.context
        kept = counts[ahead + self.horizon] > counts[ahead]
        kept &= self.before >= first[self.series]
        kept &= self.before + self.horizon <= end[self.series]
        return replace(self, starts=self.starts[kept], series=self.series[kept])

    def place(self, window: int) -> tuple[Series, int]:
        """Return the series of a window, and its row that the context begins with."""
        number = self.series[window]
        return self.parts[number][0], int(self.starts[window] - self.begins[number])

    @property
    def before(self) -> np.ndarray:
        """The number of rows of its series before each window's horizon."""
        return np.array(self.starts + self.context - self.begins[self.series])

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.starts)

    @property
    def length(self) -> int:
        """The number of values that a window reads."""
        return self.context * self.values.shape[1]

    def collate(self, rows: Sequence[int]) -> SeriesBatch:
        """Return the given windows as a batch."""
        steps = np.arange(self.context + self.horizon)
        places = torch.from_numpy(self.starts[list(rows), None] + steps)
        values = self.values[places]
        return SeriesBatch(
            values[:, : self.context],
            self.known[places],
            values[:, self.context :, : self.targets],
            self.observed[places[:, self.context :], : self.targets],
        )

    def repeated(self, rows: Sequence[int], steps: int) -> Float[Tensor, "B T C"]:
        """Return naive forecasts: the last `steps` values before each horizon, repeated over it."""
        first = self.starts[list(rows), None] + self.context - steps
        places = torch.from_numpy(first + np.arange(self.horizon) % steps)
        return self.values[places, : self.targets]

    def extent(self, row: int) -> str:
        """Return the size of a window, for messages."""
        return f"{self.context:,} steps of {counted(self.values.shape[1], 'column')}"


def split_rows(split: str, rows: int, step: Step) -> tuple[int, int, int]:
    """Return the rows where training, validation and test end."""
    sizes, _, unit = split.partition(" ")
    parts = [int(each) for each in sizes.split("/")]
    if not unit:
        if sum(parts) != 100:
            raise DataError(f"data.split: expected parts that add up to 100, found {split!r}")
        train, test = rows * parts[0] // 100, rows * parts[2] // 100
        return train, rows - test, rows
    if unit != "rows":
        if not step.days:
            raise DataError(
                f"data.split {split!r}: the times are whole numbers; use per cent or rows"
            )
        parts = [round(each * {"months": 30, "days": 1}[unit] / step.days) for each in parts]
    train, valid, test = np.cumsum(parts).tolist()
    if test > rows:
        raise DataError(f"data.split {split!r} needs {test:,} rows, but the series has {rows:,}")
    return train, valid, test


def fit_scale(series: Series, rows: int) -> Scale:
    """Return the scale of the first `rows` rows, without filled values.

    A constant column gets the deviation 0.
    """
    seen, values = series.observed[:rows], series.values[:rows]
    # A power of two scales exactly, so that squares of very large and very small numbers are exact.
    size = np.exp2(np.frexp(np.abs(values).max(axis=0, where=seen, initial=0))[1])
    values, some = np.where(seen, values / size, np.nan), seen.any(axis=0)
    mean, deviation = np.zeros(len(series.names)), np.zeros(len(series.names))
    mean[some], deviation[some] = (
        measure(values[:, some], axis=0) for measure in (np.nanmean, np.nanstd)
    )
    return Scale(mean * size, np.where(deviation > 1e-12, deviation * size, 0.0))


def scaled_values(series: Series, scale: Scale, rows: slice = slice(None)) -> np.ndarray:
    """Return the scaled values of a series, in float32."""
    given = series.values[rows]
    values = scale.scaled(given)
    far = np.argwhere(abs(values) > MOST_DEVIATIONS)
    if len(far):
        row, column = far[0]
        raise DataError(
            f"the value {given[row, column]:g} of column {series.names[column]!r} at "
            f"{shown_time(series.times[rows][row])} is more than {MOST_DEVIATIONS:.0e} deviations "
            "from the mean of the training period; correct it, or leave its cell empty"
        )
    found: np.ndarray = values.astype(np.float32)
    return found


def windows(
    given: Sequence[tuple[Series, Scale]], context: int, horizon: int, targets: int, future: int = 0
) -> SeriesWindows:
    """Return all windows of series."""
    lengths = [len(series) for series, _ in given]
    times, observed = (
        np.concatenate([getattr(series, key) for series, _ in given])
        for key in ("times", "observed")
    )
    scaled = np.concatenate([scaled_values(*part) for part in given])
    read, size = scaled.shape[1] - future, context + horizon
    owners = np.repeat(np.arange(len(given)), lengths)
    starts = np.arange(max(0, len(times) - size + 1))
    starts = starts[owners[starts] == owners[starts + size - 1]]
    return SeriesWindows(
        torch.from_numpy(scaled[:, :read]),
        torch.from_numpy(observed[:, :read]),
        torch.from_numpy(np.concatenate([calendar(times), scaled[:, read:]], axis=1)),
        given,
        np.cumsum([0, *lengths[:-1]]),
        starts,
        owners[starts],
        context,
        horizon,
        targets,
    )
