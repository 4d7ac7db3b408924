"""A sentence that waits to be decoded, and the errors that it may get instead of a result."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crosshead.addons.serving.engine import Engine
from crosshead.decoding.candidates import Hypothesis

_logger = logging.getLogger(__name__)


class Overloaded(Exception):
    """Too much work waits; the request can be sent again."""

    def __init__(self, seconds: int, own: bool) -> None:
        super().__init__(f"too many sentences wait; try again in {seconds} s")
        self.seconds, self.own = seconds, own


class TooLong(Exception):
    """A request takes longer than a request may take, even if nothing else waits."""

    def __init__(self, needed: float, allowed: float) -> None:
        super().__init__(
            f"the text would take about {math.ceil(needed)} seconds, and a request may take "
            f"{max(1, round(allowed))}; send it in parts"
        )


class DeadlineExceeded(Exception):
    """A sentence was not finished by its deadline."""


class Failed(Exception):
    """A sentence could not be decoded, because it or a thread failed, or the server stops."""


Result = list[Hypothesis] | Exception
"""The hypotheses of a sentence, best first, or the error that it gets instead."""


@dataclass(eq=False)
class Sentence:
    """A sentence to decode.

    Attributes:
        engine: The engine that decodes it.
        ids: Its token ids, without eos.
        max_length: The longest output in tokens, eos counted.
        n_best: The number of hypotheses.
        deadline: The time by which it must be done, by `time.monotonic`.
        done: Called once with the result, in a thread of the scheduler. It is not called after
            `withdrawn` was set.
        scored: False if nobody reads the log-probabilities.
        withdrawn: True if nobody waits for it any more. The scheduler sets it.
    """

    engine: Engine
    ids: Sequence[int]
    max_length: int
    n_best: int
    deadline: float
    done: Callable[[Result], None]
    scored: bool = True
    withdrawn: bool = False

    @property
    def cost(self) -> float:
        """The work that it takes: (source tokens + 1) x beam. All work is counted so."""
        return (len(self.ids) + 1.0) * self.engine.beam

    def over(self, now: float) -> bool:
        """Return whether nobody waits for it any more, or its deadline has passed."""
        return self.withdrawn or self.deadline <= now

    def answer(self, result: Result) -> None:
        """Give the sentence its result, if somebody still waits for it."""
        if self.withdrawn:
            return
        try:
            self.done(result)
        except Exception as error:  # who waited is gone, such as the event loop at the end
            _logger.error("a result found nobody: %s", type(error).__name__)
