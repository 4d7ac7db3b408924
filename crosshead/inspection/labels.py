"""Labels of pieces on the axes of a picture."""

from collections.abc import Sequence
from typing import NamedTuple

from crosshead.system.plotting import families_for

LONGEST = 18
"""The largest number of characters of a label; longer pieces are cut."""

SPACE, NO_GLYPH = "␣", "□"


class Labels(NamedTuple):
    """The labels of both axes, and their fonts."""

    queries: list[str]
    keys: list[str]
    families: list[str]
    """Font families that together have all characters."""
    note: str
    """A line for the picture if no font has some of the characters."""

    @property
    def options(self) -> dict[str, object]:
        """Text properties for matplotlib. Dollar signs in a piece do not start a formula."""
        return {"fontfamily": self.families, "parse_math": False}


def labels_of(queries: Sequence[str], keys: Sequence[str]) -> Labels:
    """Return the labels of pieces.

    Spaces become visible, unprintable characters are escaped, and a character that no installed
    font has becomes a box.
    """
    sides = [[readable(piece) for piece in side] for side in (queries, keys)]
    families, missing = families_for("".join(label for side in sides for label in side))
    boxes = dict.fromkeys(map(ord, missing), NO_GLYPH)
    note = f"{NO_GLYPH}: no font on this machine has the character; install one" if missing else ""
    first, second = ([label.translate(boxes) for label in side] for side in sides)
    return Labels(first, second, families, note)


def readable(piece: str) -> str:
    """Return a short printable label for a piece. A space becomes U+2423."""
    spaced = piece.replace(" ", SPACE).replace("\u2581", SPACE) or "(empty)"
    label = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
