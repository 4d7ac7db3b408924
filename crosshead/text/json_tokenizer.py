"""Tokenizers of imported language models: a `tokenizer.json` of Hugging Face and its ids.

The library `tokenizers` reads the file, so the ids are those of transformers. GPT-2's byte-level
BPE (Radford et al. 2019, section 2.2) is such a tokenizer.
"""

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.config import MOST_VOCABULARY
from crosshead.errors import UserError
from crosshead.text.imported import ForeignVocabulary, WithoutGaps
from crosshead.text.pieces import (
    CONTROL,
    control_ids,
    stored_model,
    to_utf8,
    write_model,
)
from crosshead.vocabulary import UNK

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


class JsonTokenizer(WithoutGaps):
    """A tokenizer of the library `tokenizers`, with the control tokens of crosshead.

    It encodes a text with its line breaks. Names of control tokens in a text, such as
    `<|endoftext|>`, are plain text. With byte-level BPE, `decode(encode(text)) == text` for every
    text of valid Unicode.
    """

    kind = "tokenizer-json"
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
        self._pieces = [
            CONTROL[index] if row is None else pieces[row] for index, row in enumerate(self._rows)
        ]
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

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the library's piece for each id; in byte-level BPE, U+0120 stands for a space."""
        return [self._pieces[index] for index in ids]

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
