"""Pieces of text as labels on the axes of a picture."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from crosshead.system.plotting import families_for

LONGEST = 18
"""Characters of a label; a longer piece is cut."""

SPACE, NO_GLYPH = "␣", "□"

_BYTE = re.compile("<0x([0-9A-F]{2})>")


class Labels(NamedTuple):
    """The labels of both axes, and how to draw them."""

    queries: list[str]
    keys: list[str]
    families: list[str]
    """Names of fonts that together have every character."""
    note: str
    """A line for the picture if no font has some character."""

    @property
    def options(self) -> dict[str, object]:
        """Properties of a text of matplotlib. A piece with two dollar signs is no formula."""
        return {"fontfamily": self.families, "parse_math": False}


def labels_of(queries: Sequence[str], keys: Sequence[str]) -> Labels:
    """Return the labels of pieces.

    Spaces become visible, what cannot be printed is escaped, and a character that no installed
    font has becomes a box.
    """
    sides = [readable(queries), readable(keys)]
    families, missing = families_for("".join(label for side in sides for label in side))
    boxes = dict.fromkeys(map(ord, missing), NO_GLYPH)
    note = f"{NO_GLYPH}: no font on this machine has the character; install one" if missing else ""
    first, second = ([label.translate(boxes) for label in side] for side in sides)
    return Labels(first, second, families, note)


def readable(pieces: Sequence[str]) -> list[str]:
    """Return a short printable label for each piece; U+2423 stands for a space.

    If pieces are the bytes of one printable character, the last of them shows the character.
    """
    labels = list(pieces)
    for first in range(len(pieces)):
        for last in range(first, min(first + 4, len(pieces))):
            character = _character(pieces[first : last + 1])
            if character is not None:
                labels[last] = character
    return [_printable(label) for label in labels]


def _printable(piece: str) -> str:
    """One piece as a label."""
    spaced = piece.replace(" ", SPACE).replace("\u2581", SPACE) or "(empty)"
    label = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _character(pieces: Sequence[str]) -> str | None:
    """Return the printable character that pieces spell in bytes of UTF-8, if they do."""
    spelled = [_BYTE.fullmatch(piece) for piece in pieces]
    try:
        text = bytes(int(byte[1], 16) for byte in spelled if byte).decode()
    except UnicodeDecodeError:
        return None
    return text if all(spelled) and len(text) == 1 and text.isprintable() else None
