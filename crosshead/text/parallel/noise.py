"""Noise in training pairs, so that a model reads what people type.

Each kind of noise changes a few pairs of an epoch (Belinkov and Bisk 2018, "Synthetic and Natural
Noise Both Break Neural Machine Translation", section 5).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from crosshead.text.parallel.examples import (
    Example,
    Growth,
    Measured,
    lead_of,
    measure_growth,
)
from crosshead.text.scripts import is_spaced
from crosshead.text.tokenizers import Tokenizer

_NOISED, _PLACED = 5, 6
"""Keys that separate these random draws from others with the same (seed, epoch)."""

_PAIRS_MEASURED = 200
"""The number of pairs on which the growth by each kind of noise is measured."""

_ENDS = ".!?…。！？؟۔।॥"
"""Marks at the end of a sentence."""

Change = Callable[[str, str, np.random.Generator], tuple[str, str]]
"""A function that changes a source and its target."""


def without_end(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    """Leave out the marks at the ends of both sides, if both have some."""
    bare = source.rstrip(_ENDS), target.rstrip(_ENDS)
    return bare if all(bare) and bare[0] != source and bare[1] != target else (source, target)


def typing_error(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    """Leave out, double or exchange a letter inside a word of the source.

    In scripts without spaces a letter may be a word, and stays.
    """
    inside = [each.isalpha() and is_spaced(each) for each in source]
    places = [at for at in range(1, len(source) - 1) if all(inside[at - 1 : at + 2])]
    if not places:
        return source, target
    at = places[int(rng.integers(len(places)))]
    left, letter, next_letter, right = source[:at], source[at], source[at + 1], source[at + 2 :]
    changed = (next_letter, letter + letter + next_letter, next_letter + letter)
    return left + changed[int(rng.integers(3))] + right, target


KINDS: tuple[Change, ...] = (without_end, typing_error)
"""The kinds of noise, which have equal shares."""


@dataclass(frozen=True)
class Noise:
    """The settings of noise in the pairs of a run."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    growths: tuple[Growth, ...]
    """The growth of pairs by each of `KINDS`."""
    share: float
    """The share of pairs with noise."""
    seed: int
    longest: int
    """The largest number of tokens of a side."""
    skipped: frozenset[int]
    """Tokens at the beginning of a source that stay there: tags of languages."""

    @classmethod
    def of(
        cls, examples: Measured, tokenizers: tuple[Tokenizer, Tokenizer], share: float, seed: int,
        longest: int, skipped: frozenset[int],
    ) -> "Noise":  # fmt: skip
        """Measure how much longer noise makes examples."""
        growths = tuple(
            measure_growth(
                examples, partial(_changed, tokenizers, skipped, kind), seed, _PAIRS_MEASURED
            )
            for kind in KINDS
        )
        return cls(tokenizers, growths, share, seed, longest, skipped)


@dataclass(frozen=True)
class Noised(Measured):
    """Examples of which a share, drawn from (seed, epoch), has noise.

    `lengths` has room for the noise. A side that grows more stays as it is.
    """

    examples: Measured
    noise: Noise
    epoch: int

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def kinds(self) -> np.ndarray:
        """The number of the kind of noise of each pair, or -1."""
        drawn = np.random.default_rng([self.noise.seed, self.epoch, _NOISED]).random(len(self))
        share = self.noise.share
        return np.where(drawn < share, (drawn / share * len(KINDS)).astype(np.int8), -1)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The tokens of both sides, without begin and end: an `n 2` array of int32."""
        lengths = self.examples.lengths.copy()
        for kind, growth in enumerate(self.noise.growths):
            rows = self.kinds == kind
            room = growth.room(lengths[rows], self.noise.longest)
            lengths[rows] = np.maximum(lengths[rows], room)
        return lengths

    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""
        usual, kind = self.examples[row], int(self.kinds[row])
        if kind < 0:
            return usual
        rng = np.random.default_rng([self.noise.seed, self.epoch, _PLACED, row])
        noise = self.noise
        found = _changed(noise.tokenizers, noise.skipped, KINDS[kind], usual, rng)
        fits = all(len(side) <= most for side, most in zip(found, self.lengths[row], strict=True))
        return found if fits else usual


def _changed(
    tokenizers: tuple[Tokenizer, Tokenizer], skipped: frozenset[int], kind: Change, usual: Example,
    rng: np.random.Generator,
) -> Example:  # fmt: skip
    """Return the ids of a pair with noise."""
    lead = lead_of(usual[0], skipped)
    sides = usual[0][lead:], usual[1]
    texts = [tokenizer.decode(ids) for tokenizer, ids in zip(tokenizers, sides, strict=True)]
    changed = kind(texts[0], texts[1], rng)
    ids = [tokenizer.encode(text) for tokenizer, text in zip(tokenizers, changed, strict=True)]
    return [*usual[0][:lead], *ids[0]], ids[1]
