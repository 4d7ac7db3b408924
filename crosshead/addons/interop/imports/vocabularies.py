"""Vocabularies of foreign models: pieces in the order of their ids, and the control tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from crosshead.addons.interop.imports.reading import AGAIN, ForeignModelError
from crosshead.text.imported import ForeignVocabulary


def ordered(ids: Mapping[str, Any], where: Path) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids, which have no gaps."""
    by_text = {str(n): n for n in range(len(ids))}  # YAML has numbers as texts
    found = {
        by_text.get(index, -1) if isinstance(index, str) else index: piece
        for piece, index in ids.items()
        if type(index) in (int, str)
    }
    if not ids or found.keys() != set(by_text.values()):
        raise ForeignModelError(
            f"{where}: the ids of the {len(ids):,} pieces are not 0 to {len(ids) - 1:,}; {AGAIN}"
        )
    return [found[n] for n in range(len(ids))]


Control = tuple[int | None, int | None, int | None, int | None]
"""The ids of padding, begin, end and unknown in a foreign vocabulary; None for one it lacks."""


def vocabulary(pieces: list[str], control: Control, where: Path) -> ForeignVocabulary:
    """Return the vocabulary of a foreign model."""
    _, _, end, unknown = control
    if end is None or unknown is None:
        missing = "end token" if end is None else "piece <unk>"
        raise ForeignModelError(f"{where}: has no {missing}; this model cannot be imported")
    try:
        return ForeignVocabulary(tuple(pieces), control)
    except ValueError as error:
        raise ForeignModelError(f"{where}: {error}; {AGAIN}") from None


def zero_start(control: Control, vectors: Tensor, where: Path) -> str:
    """Return the token that a target begins with if its first vector is zero: "pad" or "bos".

    A token that the vocabulary lacks gets a zero vector.
    """
    for name, row in (("pad", control[0]), ("bos", control[1])):
        if row is None or not vectors[row : row + 1].any():
            return name
    raise ForeignModelError(
        f"{where}: targets begin with a zero vector, but those of padding and begin are not zero"
    )
