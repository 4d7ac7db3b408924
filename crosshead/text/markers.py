"""Pieces of marks and terms, which a model reads and writes for placeholders and glossaries.

`<0/>` stands for a placeholder. In a source, `<term>` stands before a term, and `<as>` and
`</term>` around the translation that it must have. All are put between the tokens of a sentence,
which stay the same.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from crosshead.text.pieces import CONTROL, Tokenizer
from crosshead.vocabulary import UNK

MOST_MARKS = 8
"""The largest number of marks that a model reads in a sentence."""

MARKERS = tuple(f"<{number}/>" for number in range(MOST_MARKS))
"""The pieces of marks, for each number."""

TERM_MARKERS = ("<term>", "<as>", "</term>")
"""The pieces before a term, and around its translation."""


class Mark(NamedTuple):
    """A mark among the tokens of a sentence."""

    at: int
    """The number of tokens before it."""
    number: int
    """Its place in `MARKERS`."""


def ids_of(pieces: Sequence[str], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of special pieces, or none if the tokenizer does not have them all."""
    if not set(pieces) <= set(tokenizer.special):
        return ()
    # A space may stand before the first piece of a line.
    return tuple(tokenizer.encode(piece)[-1] for piece in pieces)


def with_ids(ids: Sequence[int], inserted: Iterable[tuple[int, Sequence[int]]]) -> list[int]:
    """Return ids with others inserted: each at a number of tokens, in order."""
    found, last = list[int](), 0
    for at, others in inserted:
        found += [*ids[last:at], *others]
        last = at
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

    An unknown token has the length of its part of the text, not that of `<unk>`. A tokenizer of an
    imported model may change the text; the offsets are then scaled to it.
    """
    ends = [len(tokenizer.decode(ids[: count + 1])) for count in range(len(ids))]
    if UNK in ids and len(unknown := tokenizer.unknown(text)) == ids.count(UNK):
        symbols = iter(unknown)
        longer = [len(next(symbols)) - len(CONTROL[UNK]) if each == UNK else 0 for each in ids]
        ends = [end + more for end, more in zip(ends, accumulate(longer), strict=True)]
    if ends and ends[-1] != len(text):
        ends = [round(end * len(text) / max(1, ends[-1])) for end in ends]
    return ends
