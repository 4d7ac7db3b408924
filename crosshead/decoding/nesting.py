"""The nesting of marks: the pair that each mark stands in."""

from collections.abc import Sequence

OUTERMOST = -1
"""The value of `nesting` for a piece that is in no pair."""


def nesting(ids: Sequence[int], pieces: Sequence[int]) -> dict[int, int]:
    """Return the pair that each piece among ids stands in, by the place of the piece that opens it.

    Nothing is returned if a piece is there twice, or a pair is broken.
    """
    places = {piece: place for place, piece in enumerate(pieces)}
    found, stack = dict[int, int](), [OUTERMOST]
    for place in (places[token] for token in ids if token in places):
        if place in found or (place % 3 == 1 and stack[-1] != place - 1):
            return {}
        if place % 3 == 1:
            stack.pop()
        found[place] = stack[-1]
        if place % 3 == 0:
            stack.append(place)
    return found if len(stack) == 1 else {}
