"""What the tests of intervals share: random windows, and the bootstrap that signatures describe."""

from collections.abc import Callable

import numpy as np


def bootstrap(columns: list[np.ndarray], value: Callable[..., float]) -> list[float]:
    """The 2.5th and 97.5th percentile of 1,000 resamples, as the signature describes them."""
    rng, rows = np.random.default_rng(12345), len(columns[0])
    draws = [rng.integers(rows, size=rows) for _ in range(1000)]
    values = [value(*(column[rows].sum() for column in columns)) for rows in draws]
    return np.percentile(values, [2.5, 97.5]).tolist()


def random_windows(rows: int) -> list[tuple[float, int, int]]:
    rng = np.random.default_rng(2)
    sizes = rng.integers(5, 20, size=(rows, 2))
    nats = rng.normal(2, 0.5, size=rows) * sizes[:, 0]
    return [(float(n), int(a), int(b)) for n, (a, b) in zip(nats, sizes, strict=True)]
