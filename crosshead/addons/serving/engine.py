"""The interface of engines, which decode sentences in batches that other sentences join."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crosshead.decoding.beams import Finished


class Query(NamedTuple):
    """A sentence that joins a batch.

    Attributes:
        number: The number by which the batch names it.
        ids: Its token ids, without eos.
        max_length: The longest output in tokens, eos counted.
        n_best: The number of hypotheses, at most the beam of the engine.
        scored: False if nobody reads the log-probabilities. An engine that must compute them
            afterwards may then give NaN.
    """

    number: int
    ids: Sequence[int]
    max_length: int
    n_best: int
    scored: bool = True


class DecodingBatch(Protocol):
    """Sentences that are decoded together. One thread uses it, in `torch.inference_mode`."""

    def __len__(self) -> int:
        """Return the number of sentences that the next step goes on with."""
        ...

    def add(self, queries: Sequence[Query]) -> Finished:
        """Add sentences, and return the hypotheses of those that are done already, by number.

        Any exception means that they could not be added. The other sentences of the batch stay as
        they were. The caller drops the new ones, and may add them again.
        """
        ...

    def step(self) -> Finished:
        """Go on with every sentence, and return the hypotheses of those that are done, by number.

        The scheduler lets sentences join and leave between two steps. After an exception the batch
        is not used any more.
        """
        ...

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences that nobody waits for, or that could not be added."""
        ...


class Engine(Protocol):
    """A model with the settings of one search."""

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        ...

    def batch(self) -> DecodingBatch:
        """Return a new batch without sentences. Batches are independent of each other."""
        ...

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory that the states of a batch take, in bytes, without the weights."""
        ...
