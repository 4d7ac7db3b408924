"""Times of a series: reading one, the step between rows, places on a grid, calendar features."""

import datetime
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from crosshead.system.progress import counted

CALENDAR = 4
"""The number of calendar features: time of day, day of the week, of the month and of the year."""

_DAY_FIRST = re.compile(r"^(\d\d?)\.(\d\d?)\.(\d{4}|\d\d)(?=\s|$)")
_SLASHES = re.compile(r"^(\d\d?)/(\d\d?)/(\d{4}|\d\d)(?=\s|$)")
_CLOCK = re.compile(r"\s*(\d\d?):(\d\d)(:\d\d(?:\.\d+)?)?\s*([ap])?(?(4)\.?m\.?)\s*", re.IGNORECASE)
_DAY = np.timedelta64(1, "D")
_MICROSECOND = np.timedelta64(1, "us")


class Step(NamedTuple):
    """The time between two rows: microseconds, or calendar months with a day of the month."""

    microseconds: int = 0
    months: int = 0
    day: int = 1

    def after(self, last: Any, count: int) -> Any:
        """Return the times after another.

        Args:
            last: A time.
            count: The number of times.
        """
        steps = np.arange(1, count + 1)
        if self.months:
            months = _month_of(last) + self.months * steps
            return _month_times(months, self.day, last)
        return np.asarray(last + self.microseconds * _MICROSECOND * steps)

    def season(self) -> int:
        """Return the steps of the usual season: of a day, a week or a year; 1 if there is none.

        A day and a week are whole numbers of steps, or no season. A year is rounded to steps.
        """
        if self.months:
            return max(1, 12 // self.months)
        seconds = self.microseconds / 1e6
        if seconds < 60:
            return 1
        for season, longest in ((86_400, 43_200), (7 * 86_400, 86_400)):
            if seconds <= longest:
                return round(season / seconds) if season % seconds == 0 else 1
        return round(364 * 86_400 / seconds) if seconds <= 604_800 else 1

    def words(self) -> str:
        """Return the step as text, such as `1 hour`."""
        if self.months:
            return counted(self.months, "month")
        for size, unit in ((86_400e6, "day"), (3600e6, "hour"), (60e6, "minute"), (1e6, "second")):
            if self.microseconds >= size and self.microseconds % size == 0:
                return counted(int(self.microseconds // size), unit)
        return f"{self.microseconds / 1e6:g} seconds"


def parse_time(cell: Any) -> datetime.datetime:
    """Return the time of a cell, with its offset from UTC if it has one.

    Args:
        cell: Text such as `2024-01-31 12:00`, `31.01.2024 12:00`, `2024-01-31 1:00 PM`, `2024-01`
            or `2024`, or a date. Years of two digits lie between 1969 and 2068, as in POSIX.
            Ten digits are `2024013112` if that is an hour between 1900 and 2099, otherwise seconds
            since 1970 in UTC; thirteen digits are milliseconds.

    Raises:
        ValueError: If the cell is no time.
        OverflowError: If the time lies before or after all times of UTC.
    """
    if isinstance(cell, int) and not isinstance(cell, bool):
        cell = str(cell)
    if isinstance(cell, str) and re.fullmatch(r"\d{10}|\d{13}", cell.strip()):
        return _of_digits(cell.strip())
    if isinstance(cell, str):
        text = cell.strip()
        if date := _DAY_FIRST.match(text):
            text = _iso(date[3], date[2], date[1]) + text[date.end() :]
        text = _on_24_hours(text)
        if re.fullmatch(r"\d{4}(-\d\d)?", text):  # a year, or a month
            text = f"{text}-01" if "-" in text else f"{text}-01-01"
        cell = datetime.datetime.fromisoformat(text)
    if isinstance(cell, datetime.datetime):
        on_clock(cell, utc=True)
        return cell
    if isinstance(cell, datetime.date):
        return datetime.datetime(cell.year, cell.month, cell.day)
    raise ValueError


def without_slashes(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a column of times, with dates such as `1/31/2024` as `2024-01-31`.

    All cells together show whether the month or the day stands first: one of them must be a number
    above 12.

    Args:
        cells: The cells.

    Raises:
        ValueError: If the cells fit both orders, or neither.
    """
    found = [_SLASHES.match(each.strip()) if isinstance(each, str) else None for each in cells]
    dates = [each for each in found if each]
    if not dates:
        return cells
    day_first, month_first = (any(int(date[part]) > 12 for date in dates) for part in (1, 2))
    if day_first == month_first:
        raise ValueError
    month, day = (2, 1) if day_first else (1, 2)
    return [
        _iso(date[3], date[month], date[day]) + cell.strip()[date.end() :] if date else cell
        for date, cell in zip(found, cells, strict=True)
    ]


def _iso(year: str, month: str, day: str) -> str:
    """Return a date in ISO 8601; a year of two digits lies between 1969 and 2068."""
    whole = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 69 else 2000)
    return f"{whole}-{int(month):02}-{int(day):02}"


def _on_24_hours(text: str) -> str:
    """Return a date with a time of AM or PM, such as `2024-01-31 1:00 PM`, on a clock of 24 hours.

    Raises:
        ValueError: If the hour is not between 1 and 12.
    """
    date, _, rest = text.partition(" ")
    clock = _CLOCK.fullmatch(rest)
    if not clock or not clock[4]:
        return text
    hour = int(clock[1])
    if not 1 <= hour <= 12:
        raise ValueError
    hour = hour % 12 + (12 if clock[4].lower() == "p" else 0)
    return f"{date} {hour:02}:{clock[2]}{clock[3] or ''}"


def is_clock(cell: Any) -> bool:
    """Return whether a cell is a time of day, such as `12:00` or `1:00 PM`."""
    return isinstance(cell, datetime.time) or (
        isinstance(cell, str) and _CLOCK.fullmatch(cell) is not None
    )


def is_time(cell: Any) -> bool:
    """Return whether a cell is a time, with slashes or without."""
    try:
        parse_time(cell)
    except (ValueError, TypeError, OverflowError):
        return isinstance(cell, str) and _SLASHES.match(cell.strip()) is not None
    return True


def _of_digits(text: str) -> datetime.datetime:
    """Return the time of ten or thirteen digits."""
    if re.match(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])$", text):
        return datetime.datetime.strptime(text, "%Y%m%d%H")
    seconds = int(text) / (1000 if len(text) == 13 else 1)
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)


def on_clock(time: datetime.datetime, *, utc: bool) -> np.datetime64:
    """Return a time without its offset from UTC.

    Args:
        time: The time, with or without an offset.
        utc: True to convert a time with an offset to UTC, and False to keep its clock.
    """
    if utc and time.tzinfo is not None:
        time = time.astimezone(datetime.UTC)
    return np.datetime64(time.replace(tzinfo=None), "us")


def calendar(times: np.ndarray) -> np.ndarray:
    """Return the calendar features of times, `rows K`, each from -0.5 to 0.5.

    They are the time of day, the day of the week, of the month and of the year.
    """
    days = times.astype("datetime64[D]")
    months, years = times.astype("datetime64[M]"), times.astype("datetime64[Y]")
    shares = [
        (times - days) / _DAY,
        ((days - np.datetime64("1970-01-05")) / _DAY % 7) / 6,
        ((days - months) / _DAY) / 30,
        ((days - years) / _DAY) / 365,
    ]
    return (np.stack(shares, axis=-1) - 0.5).astype(np.float32)


def places_of(times: np.ndarray) -> tuple[Step, np.ndarray, int]:
    """Return the step of the grid, the place of each row, and how many times lie between places.

    Args:
        times: Rising times, at least two.
    """
    gaps = np.diff(times) // _MICROSECOND
    if np.median(gaps) >= 27.5 * 86_400e6 and not _has_fixed_steps(times, gaps):
        months = _month_of(times)
        counts = np.bincount(np.diff(months))
        step = Step(months=int(counts.argmax()), day=int(_day_of(times).max()))
        if step.months:
            places, rest = np.divmod(months - months[0], step.months)
            return step, places + np.rint(rest / step.months).astype(int), int((rest != 0).sum())
    found, counts = np.unique(gaps, return_counts=True)
    step = Step(int(found[counts.argmax()]))
    exact = (times - times[0]) / (step.microseconds * _MICROSECOND)
    places = np.rint(exact).astype(int)
    return step, places, int((np.abs(exact - places) > 1e-9 * np.maximum(1, exact)).sum())


def shown_time(time: Any) -> str:
    """Return a time as text, without a time of day of midnight."""
    return str(time.astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")


def _has_fixed_steps(times: np.ndarray, gaps: np.ndarray) -> bool:
    """Return whether long steps are whole multiples of days, such as 28, and not months.

    Times on one day of the month, or on the last day of each month, are months.
    """
    month_ends = (times.astype("M8[D]") + _DAY).astype("M8[M]").astype("M8[D]")
    on_last_day = month_ends == times.astype("M8[D]") + _DAY
    on_one_day = len(np.unique(_day_of(times))) == 1
    return not (on_one_day or on_last_day.all()) and not (gaps % gaps.min()).any()


def _month_of(times: Any) -> Any:
    return np.asarray(times).astype("datetime64[M]").astype(int)


def _day_of(times: np.ndarray) -> Any:
    return ((times.astype("M8[D]") - times.astype("M8[M]")) / _DAY).astype(int) + 1


def _month_times(months: np.ndarray, day: int, like: Any) -> Any:
    """Return the given day of each month, or its last day, at the time of day of `like`."""
    begin = months.astype("datetime64[M]")
    last = ((begin + np.timedelta64(1, "M")).astype("M8[D]") - begin.astype("M8[D]")) / _DAY
    days = begin.astype("M8[D]") + (np.minimum(day, last) - 1).astype(int) * _DAY
    return days.astype("M8[us]") + (like - like.astype("M8[D]"))
