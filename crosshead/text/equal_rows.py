"""The base of rows of one length: windows of a series, and images of one size."""

from abc import ABC, abstractmethod

import numpy as np

from crosshead.errors import DataError
from crosshead.text.batching import Plan


class EqualRows(ABC):
    """An epoch of rows of one length."""

    row: str
    """The noun for a row."""
    bound: str
    """The key of the recipe that bounds the length of a row."""
    units: str
    """The noun for what `train.batch_tokens` counts."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The length of a row, in `units`."""

    @abstractmethod
    def extent(self, row: int) -> str:
        """Return the size of a row, for messages."""

    @property
    def lengths(self) -> np.ndarray:
        """The length of each row, "N 1"."""
        return np.full((len(self), 1), self.length)

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the rows of each batch, in an order drawn from (seed, epoch)."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all rows in order, in batches of at most `max_tokens`."""
        return self._cut(np.arange(len(self)), max_tokens)

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        size = max_tokens // self.length
        if size < 1:
            raise DataError(
                f"each {self.row} of {self.extent(0)} has {self.length:,} {self.units}, more than "
                f"the {max_tokens:,} of train.batch_tokens; raise it, or lower {self.bound}"
            )
        return np.split(order, range(size, len(order), size))
