"""The interface of engines, which decode sentences in batches that other sentences join."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crosshead.decoding.beams import Finished


class Query(NamedTuple):
    """A sentence that joins a batch.

    Attributes:
        number: The number by which the batch names it.
        ids: Its token ids, without eos.
        limit: The longest output in tokens, eos counted.
        wanted: The number of hypotheses, at most the beam of the engine.
        scored: False if nobody reads the log-probabilities. An engine that must compute them
            afterwards may then give NaN.
    """

    number: int
    ids: Sequence[int]
    limit: int
    wanted: int
    scored: bool = True


class DecodingBatch(Protocol):
    """Sentences that are decoded together."""

    def __len__(self) -> int:
        """Return the number of sentences in the batch."""
        ...

    def add(self, queries: Sequence[Query]) -> Finished:
        """Add sentences, and return the hypotheses of those that are done already, by number.

        Args:
            queries: The sentences.
        """
        ...

    def step(self) -> Finished:
        """Go on with every sentence, and return the hypotheses of those that are done, by number.

        The scheduler lets sentences join and leave between two steps.
        """
        ...

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences that nobody waits for.

        Args:
            numbers: Their numbers.
        """
        ...


class Engine(Protocol):
    """A model with the settings of one search."""

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        ...

    def batch(self) -> DecodingBatch:
        """Return a batch without sentences."""
        ...

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory of a batch.

        Args:
            sentences: Number of sentences.
            source: Length of the longest source.
            target: Length of the longest target.
        """
        ...
