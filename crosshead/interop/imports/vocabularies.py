"""Vocabularies of foreign models: pieces in the order of their ids, and the control tokens."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crosshead.data.text.imported import ForeignVocabulary
from crosshead.interop.imports.reading import AGAIN, ForeignModelError


def ordered(ids: Mapping[str, Any], where: Path) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids, which have no gaps.

    Args:
        ids: The id of each piece.
        where: The file, for messages.

    Raises:
        ForeignModelError: If the ids are not 0, 1, 2 and so on, once each.
    """
    if not ids or sorted(map(str, ids.values())) != sorted(map(str, range(len(ids)))):
        raise ForeignModelError(
            f"{where}: the ids of the {len(ids):,} pieces are not 0 to {len(ids) - 1:,}; {AGAIN}"
        )
    numbers: Callable[[str], int] = lambda piece: int(ids[piece])  # noqa: E731
    return sorted(ids, key=numbers)


def vocabulary(pieces: list[str], control: tuple[Any, ...], where: Path) -> ForeignVocabulary:
    """Return the vocabulary of a foreign model.

    Args:
        pieces: The pieces in the order of their ids.
        control: The ids of padding, begin, end and unknown.
        where: The file, for messages.

    Raises:
        ForeignModelError: If there is no end token or no unknown token, or an id does not fit.
    """
    _, _, end, unknown = control
    if type(end) is not int or type(unknown) is not int:
        missing = "end token" if type(end) is not int else "piece <unk>"
        raise ForeignModelError(f"{where}: has no {missing}; this model cannot be imported")
    try:
        return ForeignVocabulary(tuple(pieces), control)
    except (ValueError, TypeError) as error:
        raise ForeignModelError(f"{where}: {error}; {AGAIN}") from None
