"""Values of every JSON type, most of them wrong wherever they stand."""

from typing import Any

WRONG: list[Any] = [
    *(None, True, False, -1, 0, 1.5, 10**30, 1e300, float("nan"), float("inf")),
    *("x", "", "1", "-1", "nan", [], [1], [[1]], [None], {}, {"a": 1}),
]
