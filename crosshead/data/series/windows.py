"""Windows of a series: periods of time, scaling, and batches.

Axes: `B` windows, `S` context steps, `T` steps of the horizon, `C` columns, `K` calendar features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from crosshead.data.batching import Plan
from crosshead.data.series.reading import Series
from crosshead.data.series.steps import Step, calendar
from crosshead.errors import DataError
from crosshead.system.progress import counted


class Scale(NamedTuple):
    """The mean and the standard deviation of each column of the training period."""

    mean: np.ndarray
    deviation: np.ndarray

    def scaled(self, values: np.ndarray) -> Any:
        """Return values with mean 0 and deviation 1 in the training period."""
        return (values - self.mean) / self.deviation

    def unscaled(self, values: np.ndarray) -> Any:
        """Return scaled values, `... C`, in their original units."""
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class SeriesBatch:
    """Windows of a series, scaled."""

    context: Float[Tensor, "B S C"]
    """The past."""
    known: Float[Tensor, "B _ K"]
    """Calendar features of the past and of the horizon, "B S+T K"."""
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
class SeriesWindows:
    """Windows of a series; also the epoch that training reads them from."""

    values: Float[Tensor, "rows C"]
    """The whole series, scaled."""
    observed: Bool[Tensor, "rows C"]
    known: Float[Tensor, "rows K"]
    """Calendar features of all rows."""
    starts: np.ndarray
    """The first row of each window's context."""
    context: int
    horizon: int
    row, bound = "window", "data.context"

    def between(self, first: int, end: int) -> "SeriesWindows":
        """Return the windows whose horizon lies in the rows from `first` to before `end`.

        Their context may begin earlier.

        Args:
            first: The first row.
            end: The row after the last.
        """
        ahead = self.starts + self.context
        return replace(self, starts=self.starts[(ahead >= first) & (ahead + self.horizon <= end)])

    @property
    def lengths(self) -> np.ndarray:
        """The number of values that each window reads, "windows 1"."""
        return np.full((len(self.starts), 1), self.context * self.values.shape[1])

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the windows of each batch, in an order drawn from (seed, epoch).

        Args:
            max_tokens: The largest number of values that the windows of a batch read.
            seed: The random seed of the run.
            epoch: The number of the epoch.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.starts))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all windows in the order of time, in batches of at most `max_tokens` values."""
        return self._cut(np.arange(len(self.starts)), max_tokens)

    def collate(self, rows: Sequence[int]) -> SeriesBatch:
        """Return the given windows as a batch."""
        steps = np.arange(self.context + self.horizon)
        places = torch.from_numpy(self.starts[list(rows), None] + steps)
        values = self.values[places]
        return SeriesBatch(
            values[:, : self.context],
            self.known[places],
            values[:, self.context :],
            self.observed[places[:, self.context :]],
        )

    def extent(self, row: int) -> str:
        """Return the size of a window, for messages."""
        return f"{self.context:,} steps of {counted(self.values.shape[1], 'column')}"

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        size = max_tokens // (self.context * self.values.shape[1])
        if size < 1:
            raise DataError(
                f"a window reads {self.extent(0)}, more than the {max_tokens:,} values of "
                "train.batch_tokens; raise it, or lower data.context"
            )
        return np.split(order, range(size, len(order), size))


def split_rows(split: str, rows: int, step: Step) -> tuple[int, int, int]:
    """Return the rows where training, validation and test end.

    Args:
        split: `data.split`.
        rows: The number of rows.
        step: The time between rows, for months and days.

    Raises:
        DataError: If the periods are longer than the series.
    """
    sizes, _, unit = split.partition(" ")
    parts = [int(each) for each in sizes.split("/")]
    if not unit:
        if sum(parts) != 100:
            raise DataError(f"data.split: expected parts that add up to 100, found {split!r}")
        train, test = rows * parts[0] // 100, rows * parts[2] // 100
        return train, rows - test, rows
    if unit != "rows":
        days = step.months * 30 if step.months else step.microseconds / 86_400e6
        parts = [round(each * {"months": 30, "days": 1}[unit] / days) for each in parts]
    train, valid, test = np.cumsum(parts).tolist()
    if test > rows:
        raise DataError(f"data.split {split!r} needs {test:,} rows, but the series has {rows:,}")
    return train, valid, test


def fit_scale(series: Series, rows: int) -> Scale:
    """Return the scale of the first `rows` rows, without filled values.

    A constant column gets the deviation 0.

    Args:
        series: The series.
        rows: Number of rows.
    """
    values = np.where(series.observed, series.values, np.nan)[:rows]
    seen = series.observed[:rows].any(axis=0)
    mean, deviation = np.zeros(len(series.names)), np.zeros(len(series.names))
    mean[seen], deviation[seen] = (
        measure(values[:, seen], axis=0) for measure in (np.nanmean, np.nanstd)
    )
    return Scale(mean, np.where(deviation > 1e-12 * np.maximum(1, abs(mean)), deviation, 0.0))


def windows(series: Series, scale: Scale, context: int, horizon: int) -> SeriesWindows:
    """Return all windows of a series that have an observed value in their horizon.

    Args:
        series: The series.
        scale: The scale of its columns.
        context: Steps that a model reads.
        horizon: Steps that a model forecasts.
    """
    starts = np.arange(max(0, len(series) - context - horizon + 1))
    counts = np.concatenate([[0], np.cumsum(series.observed.any(axis=1))])
    return SeriesWindows(
        torch.from_numpy(scale.scaled(series.values).astype(np.float32)),
        torch.from_numpy(series.observed),
        torch.from_numpy(calendar(series.times)),
        starts[counts[starts + context + horizon] > counts[starts + context]],
        context,
        horizon,
    )
