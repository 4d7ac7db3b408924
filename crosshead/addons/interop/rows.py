"""The ids of a foreign vocabulary."""

from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.tokenizers import Tokenizer


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
