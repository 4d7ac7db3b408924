"""The ids and pieces of an exported vocabulary.

A `tokenizer.json` has one vocabulary, which encodes sources and decodes targets. So two
vocabularies become one: the pieces of the source, and then those of the target under names that no
text has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import PAD, UNK

MARK = " "
"""The character that hides a piece from texts: in a text, every space has become U+2581."""


def foreign_ids(tokenizer: Tokenizer) -> list[int | None]:
    """Return the exported id of each id of a tokenizer; None if it is not exported.

    A model of another toolkit gets its own ids back.
    """
    if isinstance(tokenizer, ImportedTokenizer | JsonTokenizer):
        return tokenizer.vocabulary.rows
    return list(range(tokenizer.vocab_size))


def vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the exported id of each piece, in the order of the ids."""
    rows = foreign_ids(tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    known = sorted((row, piece) for row, piece in zip(rows, pieces, strict=True) if row is not None)
    return {piece: row for row, piece in known}


@dataclass(frozen=True)
class JoinedVocabulary:
    """The vocabulary of an export.

    Attributes:
        pieces: The piece of each exported id; a piece that no source has begins with `MARK`.
        source: The exported id of each id of the source tokenizer; None if it is not exported.
        target: The same for the target tokenizer.
        target_rows: The row of the target's matrices for each exported id; None if both numbers
            are the same. Pieces of the source have the row of padding, which is never produced.
    """

    pieces: tuple[str, ...]
    source: Sequence[int | None]
    target: Sequence[int | None]
    target_rows: Sequence[int] | None


def joined_vocabulary(source: Tokenizer, target: Tokenizer) -> JoinedVocabulary:
    """Return one vocabulary for two tokenizers; equal vocabularies stay as they are.

    Padding, begin, end and unknown have one id for both sides.
    """
    rows, own = foreign_ids(source), foreign_ids(target)
    pieces = list(vocabulary(source))
    if vocabulary(target) == vocabulary(source):
        return JoinedVocabulary(tuple(pieces), rows, own, None)
    padding = own[PAD]
    assert padding is not None
    target_rows = [padding] * len(pieces)
    joined: list[int | None] = []
    for index, (piece, row) in enumerate(
        zip(target.pieces(range(target.vocab_size)), own, strict=True)
    ):
        shared = rows[index] if index <= UNK else None
        if row is None:
            joined.append(None)
        elif shared is not None:
            target_rows[shared] = row
            joined.append(shared)
        else:
            joined.append(len(pieces))
            # A piece of the source has one mark at most.
            pieces.append(f"{MARK}{MARK}{piece}")
            target_rows.append(row)
    return JoinedVocabulary(tuple(pieces), rows, joined, target_rows)
