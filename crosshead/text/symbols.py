"""Tokenizers of words, characters and bytes."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.errors import ConfigError, DataError
from crosshead.text.pieces import (
    CONTROL,
    Tokenizer,
    special_splitter,
    string_list,
    to_utf8,
    write_metadata,
)
from crosshead.vocabulary import UNK


class ListedTokenizer(Tokenizer):
    """The base of words and characters: a list of pieces. Everything else is `UNK`."""

    _between: str

    def __init__(self, listed: Sequence[str], special: Sequence[str] = ()) -> None:
        self.special = list(special)
        self._pieces = [*CONTROL, *listed]
        self._ids = {piece: index for index, piece in enumerate(listed, len(CONTROL))}
        self._splitter = special_splitter(special)
        self.vocab_size = len(self._pieces)
        self.line_breaks = frozenset(
            index for index, piece in enumerate(self._pieces) if "\n" in piece or "\r" in piece
        )

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a line of text, without begin and end. `rng` is not used."""
        ids = self._ids
        return [ids.get(symbol, UNK) for symbol in self._split(text)]

    def unknown(self, text: str) -> list[str]:
        """Return the unknown symbols of a line, in their order."""
        return [symbol for symbol in self._split(text) if symbol not in self._ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; padding, begin and end are left out."""
        return self._between.join([self._pieces[index] for index in ids if index >= UNK])

    def save(self, directory: Path, stem: str) -> None:
        """Write the vocabulary to `directory/stem.json`."""
        vocabulary = {"special": self.special, "pieces": self._pieces[len(CONTROL) :]}
        write_metadata(directory, stem, {"kind": self.kind, **vocabulary})

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """Return the tokenizer that `save` wrote."""
        return cls(string_list(metadata, "pieces"), string_list(metadata, "special"))

    @abstractmethod
    def _split(self, text: str) -> Iterable[str]:
        """Return the symbols of a line. Joined with `_between`, they are the line."""


class WordTokenizer(ListedTokenizer):
    """One id per word. A word is the text between two single spaces.

    A word not seen in training becomes `UNK` and is decoded as `<unk>`. Text of known words is
    restored exactly, with all its spaces: between two adjacent spaces stands the empty word, which
    is always known. A special piece is known only as a whole word.
    """

    kind = "words"
    _between = " "

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> Self:
        """Learn the vocabulary: special pieces, the empty word, then the most frequent words."""
        counts = Counter(word for line in lines for word in line.split(" "))
        return cls(_most_frequent(counts, [*special, ""], vocab_size), special)

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """Return the ids of a line with missing words: `gap` stands between each two parts.

        A space beside a gap separates the missing word from its neighbour.
        """
        last = len(parts) - 1
        inner = [
            part.removeprefix(" " * (number > 0)).removesuffix(" " * (number < last))
            for number, part in enumerate(parts)
        ]
        return super().encode_gaps(inner, gap)

    def _split(self, text: str) -> Iterable[str]:
        return text.split(" ") if text else []


class CharacterTokenizer(ListedTokenizer):
    """One id per character (Unicode code point), and one for each special piece.

    A character not seen in training becomes `UNK` and is decoded as `<unk>`. Everything else,
    including white space, is restored exactly.
    """

    kind = "characters"
    _between = ""

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> Self:
        """Learn the vocabulary: the special pieces, then the most frequent characters."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line)
        return cls(_most_frequent(counts, special, vocab_size), special)

    def _split(self, text: str) -> Iterable[str]:
        parts = self._splitter.split(text)  # special pieces stand at the odd places
        return chain.from_iterable(
            [part] if index % 2 else part for index, part in enumerate(parts)
        )


class ByteTokenizer(Tokenizer):
    """One id per byte of UTF-8 (id 4 is byte 0), and one for each special piece.

    Nothing is learned. Every text is restored exactly. Invalid UTF-8, which only a model can
    produce, is decoded as U+FFFD.
    """

    kind = "bytes"

    def __init__(self, special: Sequence[str] = ()) -> None:
        self.special = list(special)
        first_special = len(CONTROL) + 256
        self._ids = {piece: index for index, piece in enumerate(special, first_special)}
        self._splitter = special_splitter(special)
        values = [bytes([value]) for value in range(256)]
        self._bytes = [b"", b"", b"", CONTROL[UNK].encode(), *values, *map(str.encode, special)]
        self._pieces = [*CONTROL, *map(_readable, range(256)), *special]
        self.vocab_size = len(self._pieces)
        self.line_breaks = frozenset(len(CONTROL) + value for value in b"\n\r")

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a line of text, without begin and end. `rng` is not used."""
        found: list[int] = []
        for index, part in enumerate(self._splitter.split(text)):
            if index % 2:  # every second part is a special piece
                found.append(self._ids[part])
            else:
                found.extend(value + len(CONTROL) for value in to_utf8(part))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; padding, begin and end are left out."""
        return b"".join([self._bytes[index] for index in ids]).decode("utf-8", "replace")

    def save(self, directory: Path, stem: str) -> None:
        """Write the special pieces to `directory/stem.json`."""
        write_metadata(directory, stem, {"kind": self.kind, "special": self.special})

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """Return the tokenizer that `save` wrote."""
        return cls(string_list(metadata, "special"))


def _readable(value: int) -> str:
    """Return a byte as printable ASCII, or in a form such as `<0x0A>`."""
    return chr(value) if 0x21 <= value <= 0x7E else f"<0x{value:02X}>"


def _most_frequent(counts: Counter[str], fixed: Sequence[str], vocab_size: int) -> list[str]:
    """Return `fixed`, then the most frequent other pieces, at most `vocab_size` in all.

    Ties are broken by code point.
    """
    if not counts:
        raise DataError("there is no text to learn a tokenizer from")
    smallest = len(CONTROL) + len(fixed) + 1
    if vocab_size < smallest:
        raise ConfigError(
            f"tokenizer.vocab_size={vocab_size} is too small; the smallest that fits is {smallest}"
        )
    for piece in fixed:
        counts.pop(piece, None)
    by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    room = vocab_size - len(CONTROL) - len(fixed)
    return [*fixed, *(piece for piece, _ in by_frequency[:room])]
