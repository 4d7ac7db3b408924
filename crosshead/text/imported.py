"""Tokenizers of imported models: a SentencePiece model, and a vocabulary of its own.

Marian looks the pieces of SentencePiece up in a vocabulary that has other ids, and other pieces,
than the SentencePiece model. Source and target often share the vocabulary and have a SentencePiece
model each. A `tokenizer.json` of Hugging Face, such as the byte-level BPE of GPT-2 (Radford et al.
2019, section 2.2), is read by the library `tokenizers`, so its ids are those of transformers.
"""

import contextlib
import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.config import MOST_VOCABULARY
from crosshead.errors import UserError
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

    @property
    def names(self) -> list[str]:
        """The piece of each id of crosshead."""
        return [
            CONTROL[index] if row is None else self.pieces[row]
            for index, row in enumerate(self.rows)
        ]


class ImportedTokenizer(Tokenizer):
    """A SentencePiece model whose pieces are looked up in the vocabulary of another toolkit.

    SentencePiece normalises the text, so `decode(encode(text))` may differ from the text. A piece
    that the vocabulary lacks is unknown. A tag such as `>>fra<<`, if it is in the vocabulary, is
    one piece at the beginning of a line.
    """

    kind = "sentencepiece"
    normalises = True

    def __init__(self, model: bytes, vocabulary: ForeignVocabulary, where: Place = NEW) -> None:
        self.model, self.vocabulary = model, vocabulary
        self._processor, _ = load_pieces(model, where)
        self._pieces = vocabulary.names
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

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids. Padding, begin and end are left out; unknown is `<unk>`."""
        shown = [UNKNOWN_MARK if index == UNK else self._pieces[index]
                 for index in ids if index >= UNK]  # fmt: skip
        text: str = self._processor.decode_pieces(shown)
        return text.replace(SPACE, " ").replace(UNKNOWN_MARK, CONTROL[UNK]).strip()

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


_ODD = " A \u00e9\u65e5\U0010fffd\n"
"""A text with characters that most vocabularies lack: a tokenizer needs an unknown token for it."""


def tokenizers_library() -> Any:
    """Import the library `tokenizers`."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError:
        raise UserError(
            "the tokenizer of this model needs tokenizers, which is not installed: pip install "
            "'crosshead[gpt2]'"
        ) from None


def parsed(model: bytes) -> Any:
    """Return the tokenizer of the library `tokenizers` in a file."""
    library = tokenizers_library()
    with _explained("no tokenizer of the library tokenizers"):
        return library.Tokenizer.from_str(model.decode())


@contextlib.contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Turn every error of the library into a `ValueError` of one line."""
    try:
        yield
    except BaseException as error:  # a panic of the library is no `Exception`
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        shown = " ".join(str(error).split())[:100]
        raise ValueError(f"{problem} ({shown})") from None


class JsonTokenizer(Tokenizer):
    """A tokenizer of the library `tokenizers`, with the control tokens of crosshead.

    It encodes a text with its line breaks. Names of control tokens in a text, such as
    `<|endoftext|>`, are plain text. With byte-level BPE, `decode(encode(text)) == text` for every
    text of valid Unicode.
    """

    kind = "tokenizer-json"
    normalises = True
    spans_lines = True

    def __init__(
        self,
        model: bytes,
        size: int,
        control: tuple[int | None, int | None, int | None, int | None],
    ) -> None:
        if not 0 < size <= MOST_VOCABULARY:
            raise ValueError(f"expected 1 to {MOST_VOCABULARY:,} ids, found {size:,}")
        self._tokenizer = parsed(model)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        names = self._tokenizer.get_vocab(with_added_tokens=True)
        if max(names.values(), default=-1) >= size:
            raise ValueError(f"has the id {max(names.values())}, but the model has {size:,} ids")
        known = {index: piece for piece, index in names.items()}
        pieces = tuple(known.get(index, f"<|unused {index}|>") for index in range(size))
        self.model, self.vocabulary = model, ForeignVocabulary(pieces, control)
        self._rows = self.vocabulary.rows
        self._ids = {row: index for index, row in enumerate(self._rows) if row is not None}
        self._pieces = self.vocabulary.names
        self.vocab_size = len(self._pieces)
        self.prompt_start = self._start()
        self.special: list[str] = []
        self.line_breaks: frozenset[int] = frozenset()

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a text, without begin and end."""
        return [self._ids[row] for row in self._encoded(text).ids]

    def unknown(self, text: str) -> list[str]:
        """Return the parts of a text that are encoded as `UNK`, in their order."""
        found = self._encoded(text)
        ends = zip(found.ids, found.offsets, strict=True)
        return [text[begin:end] for row, (begin, end) in ends if self._ids[row] == UNK]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids. Padding, begin and end are left out."""
        rows = [row for index in ids if index >= UNK and (row := self._rows[index]) is not None]
        text: str = self._tokenizer.decode(rows, skip_special_tokens=False)
        return text

    def save(self, directory: Path, stem: str) -> None:
        """Write the library's file to `directory/stem.model` and the rest to `stem.json`."""
        metadata = {
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "size": len(self.vocabulary.pieces),
            "control": list(self.vocabulary.control),
        }
        write_model(directory, stem, self.model, metadata)

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """Return the tokenizer that `save` wrote."""
        model = stored_model(directory, stem, metadata)
        size = metadata.get("size")
        if type(size) is not int:
            raise ValueError(f"'size' is {size!r:.40}, expected a number of ids")
        return cls(model, size, control_ids(metadata))

    def _start(self) -> tuple[int, ...]:
        """Return the ids that the library puts before a text by default."""
        text = "a"
        with _explained("cannot encode every text"):
            self._tokenizer.encode(_ODD, add_special_tokens=False)
            plain = self._tokenizer.encode(text, add_special_tokens=False).ids
            full: list[int] = self._tokenizer.encode(text).ids
        places = range(len(full) + 1)
        first = next((n for n in places if full[n : n + len(plain)] == plain), 0)
        if any(row not in self._ids for row in full[:first]):
            raise ValueError(f"puts the ids {full[:first]!r:.40} before a text, which it lacks")
        return tuple(self._ids[row] for row in full[:first])

    def _encoded(self, text: str) -> Any:
        to_utf8(text)
        return self._tokenizer.encode(text, add_special_tokens=False)
