"""Pieces of marks: what a model reads and writes for tags and placeholders.

`<0>` and `</0>` stand around the text of a pair of marks, and `<0/>` for a mark that stands alone.
They are put between the tokens of a sentence, which stay the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crosshead.text.pieces import Tokenizer

MOST_MARKS = 8
"""The largest number of marks that a model reads in a sentence."""

MARKERS = tuple(
    piece
    for number in range(MOST_MARKS)
    for piece in (f"<{number}>", f"</{number}>", f"<{number}/>")
)
"""The pieces of marks: those that open and close a pair, and stand alone, for each number."""

OPEN, CLOSE, LONE = range(3)
"""What a piece does: its place in `MARKERS` modulo 3."""


class Mark(NamedTuple):
    """A mark among the tokens of a sentence."""

    at: int
    """The number of tokens before it."""
    marker: int
    """Its place in `MARKERS`."""


def marker_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of all `MARKERS`, or none if the tokenizer does not have them."""
    if not set(MARKERS) <= set(tokenizer.special):
        return ()
    # A space may stand before the first piece of a line.
    return tuple(tokenizer.encode(piece)[-1] for piece in MARKERS)


def with_marks(ids: Sequence[int], marks: Sequence[Mark], markers: Sequence[int]) -> list[int]:
    """Return ids with marks, which are given in order, between them."""
    found, last = list[int](), 0
    for mark in marks:
        found += [*ids[last : mark.at], markers[mark.marker]]
        last = mark.at
    return [*found, *ids[last:]]


def without_marks(ids: Sequence[int], markers: Sequence[int]) -> tuple[list[int], list[Mark]]:
    """Return ids without marks, and the marks among them."""
    places = {marker: place for place, marker in enumerate(markers)}
    found, marks = list[int](), list[Mark]()
    for each in ids:
        if each in places:
            marks.append(Mark(len(found), places[each]))
        else:
            found.append(each)
    return found, marks


def token_ends(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[int]:
    """Return the offset in a text after each of its tokens.

    A tokenizer of an imported model may change the text; the offsets are then scaled to it.
    """
    ends = [len(tokenizer.decode(ids[: count + 1])) for count in range(len(ids))]
    if ends and ends[-1] != len(text):
        ends = [round(end * len(text) / max(1, ends[-1])) for end in ends]
    return ends
