"""The settings of a search with a trained model, and the length penalty. They need no PyTorch."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from crosshead.config import LARGEST, MOST, Config
from crosshead.errors import ConfigError

Stop = Literal["full", "last", "exact", "count"]
"""The rule that ends the search of a sentence early: see `DecodeConfig.stop`."""

OFFSET = 5.0
"""The constant k of the length penalty that is usual: Wu's. With k = 0 the penalty is |Y|^alpha,
the form of Hugging Face, Marian and CTranslate2."""


def length_penalty(length: int, alpha: float, offset: float = OFFSET) -> float:
    """Return the length penalty ((k + |Y|) / (k + 1))^alpha, which grows with the length.

    Reference:
        Wu et al. 2016, section 7, Eq. 14.
    """
    return float(((offset + length) / (offset + 1)) ** alpha)


MOST_EXTRA = 1000
"""The largest value of `max_extra`."""


class DecodeConfig(Config):
    """Settings of the search with a trained model: section `[decode]` of a recipe.

    The defaults are the paper's settings.

    Reference:
        Vaswani et al. 2017, section 6.1.
    """

    beam: int = Field(default=4, gt=0, le=1000)
    """The number of hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0, le=10)
    """The exponent alpha of the length penalty: score = log P / ((k + |Y|) / (k + 1))^alpha. Larger
    values favour longer outputs; 0 turns it off."""
    length_offset: float = Field(default=OFFSET, ge=0, le=1000)
    """The constant k of the length penalty: 5 is Wu's (2016); 0 divides by |Y|^alpha, the form of
    Hugging Face, Marian and CTranslate2, which imported models keep."""
    stop: Stop = "full"
    """The rule that ends beam search of a sentence. "full": as many hypotheses have finished as the
    beam holds, and no unfinished one scores better at its present length. "last": the same, but no
    unfinished one scores better than any of the best that the beam holds (the default of Hugging
    Face). "exact": no unfinished hypothesis can score better any more, which takes more steps.
    "count": as many have finished as the beam holds (CTranslate2's rule, so that it can search for
    crosshead). Without a length penalty all rules find the same."""
    max_extra: int = Field(default=50, ge=0, le=MOST_EXTRA)
    """The longest output has this many tokens more than the source, including the end token."""
    min_length: int = Field(default=0, ge=0, le=MOST_EXTRA)
    """The shortest output has this many tokens, without the end token."""
    sample: bool = False
    """True samples from the model's distribution instead of searching for its maximum (needs beam =
    1)."""
    temperature: float = Field(default=1.0, ge=1e-6, le=1000)
    """The divisor of the logits before sampling: below 1 is more conservative, above 1 more
    varied."""
    top_k: int = Field(default=0, ge=0, le=MOST)
    """Sample only from this many most probable tokens; 0 is no limit."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample only from the fewest most probable tokens that together have this probability."""
    seed: int = Field(default=1, ge=0, le=LARGEST)
    """The random seed of the samples."""
    batch_tokens: int = Field(default=4096, gt=0, le=MOST)
    """The number of source tokens, including padding, that are decoded at once."""

    @model_validator(mode="after")
    def _sampling_or_beam(self) -> "DecodeConfig":
        if self.sample and self.beam > 1:
            raise ValueError(
                f"sampling needs beam = 1, found sample = true and beam = {self.beam}; set beam = 1"
            )
        if not self.sample and (self.temperature, self.top_k, self.top_p) != (1.0, 0, 1.0):
            raise ValueError("temperature, top_k and top_p need sampling; set sample = true")
        return self

    def check_count(self, n_best: int) -> None:
        """Check that the search finds a number of hypotheses.

        Args:
            n_best: The number of hypotheses for each sentence.

        Raises:
            ConfigError: If it is below 1 or larger than the beam.
        """
        if n_best < 1:
            raise ConfigError(f"n_best: expected 1 or more, found {n_best}")
        if not self.sample and n_best > self.beam:
            raise ConfigError(
                f"a beam of {self.beam} is too small for {n_best} hypotheses: "
                f"set decode.beam to {n_best} or more"
            )


@dataclass(frozen=True)
class BeamRules:
    """The settings of a beam search.

    Attributes:
        beam: The number of unfinished hypotheses kept for each sentence.
        alpha: The exponent of the length penalty.
        stop: The rule that ends a sentence: see `DecodeConfig.stop`.
        offset: The constant k of the length penalty.
        min_length: The shortest output, in tokens without eos.
    """

    beam: int
    alpha: float
    stop: Stop = "full"
    offset: float = OFFSET
    min_length: int = 0


_STOPS = {
    "full": "",
    "last": ", early_stopping = false as in Hugging Face",
    "exact": ", early_stopping = never as in Hugging Face",
    "count": ", until as many have finished as in CTranslate2",
}
"""The rules that end beam search, as ends of a description."""


def search_name(decode: DecodeConfig) -> str:
    """Return a short name of the search."""
    if decode.sample:
        return "sampled"
    if decode.beam == 1:
        return "greedy"
    alpha, k = decode.length_penalty, decode.length_offset
    divisor = f"length^{alpha:g}" if k == 0 else f"(({k:g} + length) / {k + 1:g})^{alpha:g}"
    form = "" if k == OFFSET or alpha == 0 else f" (scores are divided by {divisor})"
    return f"beam {decode.beam}, length penalty {alpha:g}{form}{_STOPS[decode.stop]}"
