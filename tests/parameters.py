"""Parameters of tests that are many: a few run by default, all of them with the slow tests."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], default: Collection[Any]) -> list[Any]:
    """Mark the values that are not among the default ones as slow.

    A tuple holds the values of several parameters.

    Raises:
        ValueError: If a default value is not among the values.
    """
    listed = list(values)
    if missing := [value for value in default if value not in listed]:
        raise ValueError(f"not among the parameters: {missing}")
    return [
        value if value in default else pytest.param(*_values(value), marks=pytest.mark.slow)
        for value in listed
    ]


def _values(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
