"""Times of a series: reading them, the step between rows, places on a grid, calendar features."""

import re
from collections.abc import Sequence
from importlib import import_module
from itertools import compress
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from crosshead.errors import DataError
from crosshead.system.progress import counted

CALENDAR = 4
"""The number of calendar features: time of day, day of the week, of the month and of the year."""

OUTLIERS = 0.1
"""The largest share of rows with a time between the steps of the grid."""

_ALL_DAYS = "1111111"
_DAY = np.timedelta64(1, "D")
_DAY_MICROSECONDS = 86_400_000_000
_DATES = ("%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d")
_SLASHES = (("%d/%m/%Y", "%d/%m/%y"), ("%m/%d/%Y", "%m/%d/%y"))
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_DIGITS = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Forms of times without separators, by their number of digits."""
_EPOCHS = {10: "s", 13: "ms"}
"""Units since 1970, by their number of digits."""
_OFFSET = r"(?<=\d)\s*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_QUARTER = re.compile(r"^(\d{4})[- ]?Q([1-4])$")


def pandas() -> Any:
    """Return pandas, which reads tables and times."""
    try:
        return import_module("pandas")
    except ImportError:
        raise DataError(
            "pandas, which reads time series, is not installed: pip install 'crosshead[series]'"
        ) from None


class Step(NamedTuple):
    """The step between rows: microseconds, calendar months, or whole numbers."""

    microseconds: Annotated[int, Field(ge=0)] = 0
    months: Annotated[int, Field(ge=0)] = 0
    day: Annotated[int, Field(ge=1, le=31)] = 1
    """The day of the month, for steps of months."""
    weekdays: Annotated[str, Field(pattern="^[01]{7}$")] = _ALL_DAYS
    """The days of the week with rows, from Monday, for steps of one day."""
    numbers: Annotated[int, Field(ge=0)] = 0
    """The step of times that are whole numbers."""

    def after(self, last: Any, count: int) -> Any:
        """Return the times after another, which is on the grid."""
        ahead, day = np.arange(1, count + 1), _days(last)
        if self.months:
            return self._in_months(_months(last) + self.months * ahead) + (last - day)
        if self.weekdays != _ALL_DAYS:
            return np.busday_offset(day, ahead, weekmask=self.weekdays) + (last - day)
        return last + self._size * ahead

    def on_grid(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the place of each row on the grid, its time, and whether the row lies between.

        A row between places has another month, or if the step is no month, another time.
        """
        days = _days(times)
        clock = times[0] - days[0]
        if self.months:
            months = _months(times)
            places = np.rint((months - months[0]) / self.months).astype(int)
            found = months[0] + self.months * places
            return places, self._in_months(found) + clock, found != months
        if self.weekdays != _ALL_DAYS:
            ahead = np.busday_offset(days, 0, "forward", self.weekdays)
            back = np.busday_offset(days, 0, "backward", self.weekdays)
            near = np.where(days - back < ahead - days, back, ahead)
            places, nearest = np.busday_count(near[0], near, self.weekdays), near + clock
        else:
            places = np.rint((times - times[0]) / self._size).astype(int)
            nearest = times[0] + places * self._size
        return places, nearest, nearest != times

    def _in_months(self, months: Any) -> Any:
        """Return the day of the step in each month, or the month's last day if it is shorter."""
        first, end = (each.astype("M8[M]").astype("M8[D]") for each in (months, months + 1))
        return first + np.minimum(end - first, np.timedelta64(self.day, "D")) - _DAY

    @property
    def _size(self) -> Any:
        return self.numbers or np.timedelta64(self.microseconds, "us")

    @property
    def is_zero(self) -> bool:
        """True if the step does not move."""
        return not any((self.microseconds, self.months, self.numbers)) or "1" not in self.weekdays

    @property
    def days(self) -> float:
        """The mean number of days of a step; 0 for whole numbers."""
        if self.months:
            return self.months * 30
        return self.microseconds / _DAY_MICROSECONDS * 7 / self.weekdays.count("1")

    def season(self) -> int:
        """Return the steps of the usual season: of a day, a week or a year; 1 if there is none.

        A day and a week are whole numbers of steps, or no season. A year is rounded to steps.
        """
        if self.months:
            return max(1, 12 // self.months)
        days = self.microseconds / _DAY_MICROSECONDS
        if days == 1:
            return self.weekdays.count("1")
        for season, longest in ((1, 0.5), (7, 1), (364, 7)):
            if 1 / 1440 <= days <= longest:
                whole = season == 364 or season * _DAY_MICROSECONDS % self.microseconds == 0
                return round(season / days) if whole else 1
        return 1

    def words(self) -> str:
        """Return the step as text, such as `1 hour`."""
        if self.months:
            return counted(self.months, "month")
        if self.numbers:
            return f"{self.numbers:,} in whole numbers"
        if self.weekdays != _ALL_DAYS:
            names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
            return f"1 day ({', '.join(compress(names, map(int, self.weekdays)))})"
        for size, unit in ((86_400e6, "day"), (3600e6, "hour"), (60e6, "minute"), (1e6, "second")):
            if self.microseconds >= size and self.microseconds % size == 0:
                return counted(int(self.microseconds // size), unit)
        return f"{self.microseconds / 1e6:g} seconds"


def find_step(series: Sequence[np.ndarray], usual: Step | None = None) -> Step | None:
    """Return the step of the grid of one or several series, or None if no series has two rows."""
    gaps = np.concatenate([np.diff(times) for times in series])
    if not len(gaps):
        return None
    if gaps.dtype.kind == "i":
        return Step(numbers=_most_frequent(gaps))
    times, gaps = np.concatenate(series), gaps.astype("m8[us]").astype(int)
    if np.median(gaps) >= 27.5 * _DAY_MICROSECONDS and not _has_fixed_steps(times, gaps):
        between = np.concatenate([np.diff(_months(each)) for each in series])
        if months := _most_frequent(between):
            index = pandas().DatetimeIndex(times)
            day = 31 if index.is_month_end.mean() > 0.5 else _most_frequent(index.day)
            return Step(months=months, day=day)
    step = Step(_most_frequent(gaps))
    if step.microseconds != _DAY_MICROSECONDS:
        return step
    known = usual and np.is_busday(times.astype("M8[D]"), usual.weekdays).all()
    if usual and known and usual.microseconds == step.microseconds:
        return usual
    if max(np.ptp(each) for each in series) < 14 * _DAY:  # too short to show its calendar
        return step
    found = np.bincount(pandas().DatetimeIndex(times).day_of_week, minlength=7)
    return step._replace(weekdays="".join(map(str, (found > OUTLIERS * found.max()).astype(int))))


def _most_frequent(numbers: np.ndarray) -> int:
    found, counts = np.unique(numbers, return_counts=True)
    return int(found[counts.argmax()])


def _has_fixed_steps(times: np.ndarray, gaps: np.ndarray) -> bool:
    """Return whether long steps are whole multiples of days, such as 28, and not months.

    Times on one day of the month, or on the last day of each month, are months.
    """
    index = pandas().DatetimeIndex(times)
    of_months = index.is_month_end.all() or index.day.nunique() == 1
    return not of_months and not (gaps % gaps.min()).any()


def _months(times: Any) -> Any:
    return times.astype("M8[M]").astype(int)


def _days(times: Any) -> Any:
    """Return the days of times; whole numbers are days of their own."""
    return times.astype("M8[D]") if times.dtype.kind == "M" else times


class Times(NamedTuple):
    """The times of cells, without offsets from UTC."""

    values: np.ndarray
    """The times, `datetime64[us]`, or whole numbers; NaT for a cell that is no time."""
    zoned: bool
    """True if the cells have an offset."""
    utc: bool
    """True if the times were converted to UTC."""


def read_times(cells: Sequence[str], utc: bool | None = None, *, numbers: bool = False) -> Times:
    """Return the times of cells.

    All cells may be digits. Then they are times such as `2024` or `2024013112` if all of them lie
    between 1900 and 2099 (years: 1500 and 2200), seconds or milliseconds since 1970 if all of them
    have ten or thirteen digits, and otherwise whole numbers.
    """
    text = pandas().Series(np.asarray(cells, object), dtype=object).str.strip()
    if text.str.fullmatch(r"-?\d{1,18}").all():
        found = text.to_numpy(object).astype(np.int64) if numbers else _of_digits(text)
        return Times(found, zoned=False, utc=False)
    zoned = text.str.contains(rf"[T ]\d.*{_OFFSET}").to_numpy(bool)
    found = _on_clock(text.str.replace(_OFFSET, "", regex=True).where(zoned, text))
    if not zoned.any():
        return Times(found, zoned=False, utc=False)
    found[~zoned] = np.datetime64("NaT")
    if utc is None:
        utc = len(np.unique(found - found.astype("M8[D]"))) > 1
    if utc:
        times = pandas().to_datetime(text, format="ISO8601", errors="coerce", utc=True)
        found = np.where(zoned, times.dt.tz_localize(None).to_numpy("M8[us]"), found)
    return Times(found, zoned=True, utc=utc)


def _of_digits(text: Any) -> np.ndarray:
    """Return the times, or the whole numbers, of cells of digits."""
    sizes, numbers = set(text.str.len()), text.to_numpy(dtype=object).astype(np.int64)
    size = sizes.pop() if len(sizes) == 1 else 0
    if size in _DIGITS:
        times = pandas().to_datetime(text, format=_DIGITS[size], errors="coerce")
        years = (1500, 2200) if size == 4 else (1900, 2099)
        if times.notna().all() and times.dt.year.between(*years).all():
            return np.array(times.to_numpy("M8[us]"))
    if size in _EPOCHS:
        numbers = numbers.astype(f"M8[{_EPOCHS[size]}]").astype("M8[us]")
    return np.array(numbers)


def _on_clock(text: Any) -> np.ndarray:
    """Return the times of cells without offsets."""
    text = text.where(text.str.match(r"\d"), "")  # pandas knows `now`
    found = _parsed(text, "ISO8601")
    text = text[found.isna()]
    text = text.str.replace(r"(?i)\s*([ap])\.?m\.?$", r" \1m", regex=True)
    text = text.str.replace(_QUARTER, lambda q: f"{q[1]}-{3 * int(q[2]) - 2:02}", regex=True)
    slashes = text.str.extract(r"^(\d\d?)/(\d\d?)/").astype(float).max() > 12
    dates = (*_DATES, *(_SLASHES[slashes.argmax()] if slashes.sum() == 1 else ()))
    forms = ["%Y-%m", *(date + clock for clock in _CLOCKS for date in dates)]
    for form in 2 * forms:  # a column may have days among its times, before and after them
        if len(text) and _parsed(text.iloc[:1], form).notna().all():
            found[text.index] = _parsed(text, form)
            text = text[found[text.index].isna()]
    return np.array(found)


def _parsed(text: Any, form: str) -> Any:
    return pandas().to_datetime(text, format=form, errors="coerce").astype("M8[us]")


def calendar(times: np.ndarray) -> np.ndarray:
    """Return the calendar features of times, `rows K`, each from -0.5 to 0.5.

    They are the time of day, the day of the week, of the month and of the year; all of them are 0
    for whole numbers.
    """
    if times.dtype.kind == "i":
        return np.zeros((len(times), CALENDAR), np.float32)
    index = pandas().DatetimeIndex(times)
    shares = [
        (times - times.astype("M8[D]")) / _DAY,
        index.day_of_week / 6,
        (index.day - 1) / 30,
        (index.day_of_year - 1) / 365,
    ]
    return (np.stack(shares, axis=-1) - 0.5).astype(np.float32)


def shown_time(time: Any) -> str:
    """Return a time as text, without a time of day of midnight."""
    if isinstance(time, np.integer):
        return str(time)
    return str(time.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
