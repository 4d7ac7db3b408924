"""Tokenizers of imported models: a SentencePiece model, and a vocabulary of its own.

Marian looks the pieces of SentencePiece up in a vocabulary that has other ids, and other pieces,
than the SentencePiece model. Source and target often share the vocabulary and have a SentencePiece
model each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.errors import DataError
from crosshead.text.pieces import (
    CONTROL,
    NEW,
    Place,
    Tokenizer,
    control_ids,
    load_pieces,
    stored_model,
    string_list,
    to_utf8,
    write_model,
)
from crosshead.text.subwords import SPACE, UNKNOWN_MARK
from crosshead.vocabulary import UNK


@dataclass(frozen=True)
class ForeignVocabulary:
    """The vocabulary of another toolkit.

    Attributes:
        pieces: The pieces in the order of the toolkit's ids.
        control: The toolkit's ids of padding, begin, end and unknown; None for one it lacks.
    """

    pieces: tuple[str, ...]
    control: tuple[int | None, int | None, int | None, int | None]

    def __post_init__(self) -> None:
        piece, count = Counter(self.pieces).most_common(1)[0] if self.pieces else ("", 0)
        if count > 1:
            raise ValueError(f"piece {piece!r} occurs {count} times in the vocabulary")
        known = [each for each in self.control if each is not None]
        if len(set(known)) < len(known) or not all(0 <= each < len(self.pieces) for each in known):
            raise ValueError(f"the control ids {self.control} are not ids of different pieces")

    @property
    def rows(self) -> list[int | None]:
        """The toolkit's id of each id of crosshead; None for a control piece that it lacks.

        The control pieces come first, as in every vocabulary of crosshead. The other pieces keep
        their order.
        """
        taken = set(self.control)
        return [*self.control, *(n for n in range(len(self.pieces)) if n not in taken)]


class WithoutGaps(Tokenizer):
    """The base of tokenizers of imported models, which no masked language model is trained with."""

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """Refuse a line with gaps."""
        raise DataError(
            "the tokenizer of an imported model does not fill gaps; choose a masked language model "
            "that crosshead trained"
        )

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """Refuse a line with gaps, as `encode_gaps` does."""
        return str(self.encode_gaps(parts, 0))


class ImportedTokenizer(WithoutGaps):
    """A SentencePiece model whose pieces are looked up in the vocabulary of another toolkit.

    SentencePiece normalises the text, so `decode(encode(text))` may differ from the text. A piece
    that the vocabulary lacks is unknown. A tag such as `>>fra<<`, if it is in the vocabulary, is
    one piece at the beginning of a line.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, vocabulary: ForeignVocabulary, where: Place = NEW) -> None:
        self.model, self.vocabulary = model, vocabulary
        self._processor, self._of_model = load_pieces(model, where)
        names = vocabulary.pieces
        self._pieces = [
            CONTROL[index] if row is None else names[row]
            for index, row in enumerate(vocabulary.rows)
        ]
        self.vocab_size = len(self._pieces)
        self._ids = {piece: index for index, piece in enumerate(self._pieces) if index > UNK}
        self.special = [piece for piece in self._ids if _is_tag(piece)]
        self.line_breaks = frozenset(
            index for piece, index in self._ids.items() if is_line_break(piece)
        )

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a line of text, without begin and end."""
        return [self._ids.get(piece, UNK) for piece in self._segmented(text)]

    def unknown(self, text: str) -> list[str]:
        """Return the pieces of a line that the vocabulary lacks, in their order."""
        return [piece for piece in self._segmented(text) if piece not in self._ids]

    def missing_pieces(self) -> list[str]:
        """Return the pieces of the SentencePiece model that the vocabulary lacks."""
        model, known = self._processor, {*self._pieces}
        return [
            piece
            for index, piece in enumerate(self._of_model)
            if piece not in known and not (model.is_control(index) or model.is_unknown(index))
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids. Padding, begin and end are left out; unknown is `<unk>`."""
        shown = [UNKNOWN_MARK if index == UNK else self._pieces[index]
                 for index in ids if index >= UNK]  # fmt: skip
        text: str = self._processor.decode_pieces(shown)
        return text.replace(SPACE, " ").replace(UNKNOWN_MARK, CONTROL[UNK]).strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable piece for each id: U+2581 stands for a space."""
        return [self._pieces[index] for index in ids]

    def save(self, directory: Path, stem: str) -> None:
        """Write the SentencePiece model to `directory/stem.model` and the rest to `stem.json`."""
        metadata = {
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "pieces": list(self.vocabulary.pieces),
            "control": list(self.vocabulary.control),
        }
        write_model(directory, stem, self.model, metadata)

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """Return the tokenizer that `save` wrote."""
        model, control = stored_model(directory, stem, metadata), control_ids(metadata)
        vocabulary = ForeignVocabulary(tuple(string_list(metadata, "pieces")), control)
        return cls(model, vocabulary, directory / f"{stem}.model")

    def _segmented(self, text: str) -> list[str]:
        to_utf8(text)
        tag, rest = self._tag_and_rest(text)
        pieces: list[str] = self._processor.encode(rest, out_type=str)
        return tag + pieces

    def _tag_and_rest(self, text: str) -> tuple[list[str], str]:
        """Return the tag of a target language that a text begins with, and the rest."""
        end = text.find("<<") + 2
        if self.special and text.startswith(">>") and text[:end] in self._ids:
            return [text[:end]], text[end:]
        return [], text


def is_line_break(piece: str) -> bool:
    """Return whether a piece would be decoded to a line break."""
    return bool(set(piece) & set("\n\r")) or piece in ("<0x0A>", "<0x0D>")


def _is_tag(piece: str) -> bool:
    """Return whether a piece is a tag of a target language, such as `>>fra<<`."""
    return piece.startswith(">>") and piece.endswith("<<") and len(piece) > 4
