"""The outputs of a search, and the special tokens that it needs. They need no PyTorch."""

from dataclasses import dataclass

__all__ = ["NOTHING", "Finished", "Hypothesis", "Specials"]

NOTHING = -1
"""An id that no token has."""


@dataclass(frozen=True)
class Specials:
    """The ids of special tokens.

    Attributes:
        start: Fed before the first token.
        eos: Ends a hypothesis. With `NOTHING` only the length limit ends it.
        forbidden: Never produced: padding, unknown, line breaks and so on. Other tokens do not get
            their probability.
        marks: The pieces of marks, which are only produced for the marks of the source: see
            `crosshead.decoding.markup`.
        high_bytes: The pieces of the bytes 0x80 to 0xFF, if there are any. Only valid UTF-8 is
            produced from them.

    Raises:
        ValueError: If `eos` is forbidden, because then no hypothesis could finish.
    """

    start: int
    eos: int
    forbidden: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    high_bytes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.eos in self.forbidden:
            raise ValueError(f"eos (id {self.eos}) is one of the forbidden ids {self.forbidden}")


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search.

    Attributes:
        tokens: Ids without start and eos.
        token_log_probs: Natural log-probability of each token and, if finished, of eos, in the
            model's whole distribution at temperature 1.
        log_prob: The sum of `token_log_probs`.
        score: `log_prob` divided by the length penalty.
        finished: Whether eos ended the hypothesis; False if the length limit cut it off.
    """

    tokens: list[int]
    token_log_probs: list[float]
    log_prob: float
    score: float
    finished: bool


Finished = dict[int, list[Hypothesis]]
"""The finished hypotheses of sentences, by their numbers."""
