"""Suspect pairs: their kinds, scores and reasons."""

from typing import NamedTuple

KINDS = {
    "empty": "a side has no text",
    "identical": "both sides are the same text",
    "placeholder": "a text without words opposite a sentence",
    "encoding": "characters that are damaged or invisible",
    "unicode": "characters in an unusual Unicode form",
    "mark-up": "tags on one side only",
    "exchanged": "each side is in the language of the opposite side",
    "language": "another language than the rest of the side",
    "length": "lengths that do not fit together",
    "misaligned": "sides that do not translate each other",
    "number": "a number that differs between the sides",
    "duplicate": "repeats an earlier pair",
    "near-duplicate": "differs from an earlier pair in at most one word",
    "overlap": "is in the validation or the test set, too",
}
"""All kinds of suspect pairs, in the order of the checks, with their meaning."""

REPAIRED = ("unicode",)
"""The kinds whose pairs `--apply` repairs. It drops the pairs of the other kinds."""


class Suspect(NamedTuple):
    """A suspect pair."""

    row: int
    """The number of the pair, from 0."""
    kind: str
    """One of `KINDS`."""
    score: float
    """The strength of the evidence, from 0 to 1. Scores are comparable within a kind."""
    reason: str
    """The reason, for people."""
    shift: int = 0
    """The shift of a misaligned pair, or 0. With a shift of 1, the target of row n translates the
    source of row n + 1."""
