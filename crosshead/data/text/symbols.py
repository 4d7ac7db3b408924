"""The plain tokenizers: whole words, characters, bytes; and what every tokenizer shares.

Ids 0 to 3 are the same in all of them: padding, begin of sentence, end of sentence, unknown.
"""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.errors import ConfigError, DataError
from crosshead.system.files import atomic_write
from crosshead.system.stored import LARGEST_METADATA
from crosshead.vocabulary import UNK

CONTROL = ("<pad>", "<s>", "</s>", "<unk>")
"""The names of ids 0 to 3; only `<unk>` is ever part of decoded text."""

MOST_SPECIAL, MOST_SPECIAL_CHARACTERS = 10_000, 200_000
"""Pieces that are never split, and their characters."""


class GapError(DataError):
    """A gap where none can be: which of those of its line, counted from 1, and why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"gap {number} of the line {why}")
        self.number, self.why = number, why


class ListedTokenizer(ABC):
    """The common base of words and characters: a list of pieces; everything else is `UNK`."""

    kind: str
    sampling = 0.0
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
        """The ids of a line of text, without begin and end; `rng` has nothing to choose here."""
        ids = self._ids
        return [ids.get(symbol, UNK) for symbol in self._split(text)]

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """`encode` for many lines."""
        return [self.encode(line, rng) for line in lines]

    def unknown(self, text: str) -> list[str]:
        """The symbols of a line that are `UNK`, in their order."""
        return [symbol for symbol in self._split(text) if symbol not in self._ids]

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """The ids of a line of which symbols are missing: `gap` between each two of its parts."""
        return _with_gaps([self.encode(part) for part in parts], gap)

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """The line of which symbols were missing, with those of the `found` ids in their place."""
        return fill(parts, found, self.decode)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; padding, begin and end are left out."""
        return self._between.join([self._pieces[index] for index in ids if index >= UNK])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A readable piece for each id."""
        return [self._pieces[index] for index in ids]

    def save(self, directory: Path, stem: str) -> None:
        """Write the vocabulary to `directory/stem.json`."""
        vocabulary = {"special": self.special, "pieces": self._pieces[len(CONTROL) :]}
        write_metadata(directory, stem, {"kind": self.kind, **vocabulary})

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """The tokenizer that `save` wrote; `metadata` is what its JSON file holds."""
        return cls(string_list(metadata, "pieces"), string_list(metadata, "special"))

    @abstractmethod
    def _split(self, text: str) -> Iterable[str]:
        """The symbols of a line, which `_between` joins to the line again."""


class WordTokenizer(ListedTokenizer):
    """One id a word, where a word is what stands between two single spaces.

    A word not seen in training becomes `UNK` and is decoded as `<unk>`; text of known words, runs
    of spaces included, is given back exactly (between two neighbouring spaces stands the empty
    word, which is always known). A special piece is known as a word of its own.
    """

    kind = "words"
    _between = " "

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> Self:
        """The special pieces, the empty word, then the most frequent words."""
        counts = Counter(word for line in lines for word in line.split(" "))
        return cls(_most_frequent(counts, [*special, ""], vocab_size), special)

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """The ids of a line of which words are missing: `gap` between each two of its parts.

        Raises `GapError` for a gap that is not between spaces, as words are.
        """
        for number, (left, right) in enumerate(pairwise(parts), 1):
            begins = left.endswith(" ") or (number == 1 and not left)
            ends = right.startswith(" ") or (number == len(parts) - 1 and not right)
            if not begins or not ends:
                raise GapError(
                    number,
                    "is a part of a word, and this model knows whole words: leave a space on each "
                    "side of it",
                )
        inner = [
            part[number > 0 :] if number == len(parts) - 1 else part[number > 0 : -1]
            for number, part in enumerate(parts)
        ]
        return super().encode_gaps(inner, gap)

    def _split(self, text: str) -> Iterable[str]:
        return text.split(" ") if text else []


class CharacterTokenizer(ListedTokenizer):
    """One id a character (Unicode code point), one for each special piece.

    A character not seen in training becomes `UNK` and is decoded as `<unk>`; everything else,
    white space included, is given back exactly.
    """

    kind = "characters"
    _between = ""

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> Self:
        """The special pieces, then the most frequent characters."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line)
        return cls(_most_frequent(counts, special, vocab_size), special)

    def _split(self, text: str) -> Iterable[str]:
        if self._splitter is None:
            return text
        parts = self._splitter.split(text)  # special pieces stand at the odd places
        return chain.from_iterable(
            [part] if index % 2 else part for index, part in enumerate(parts)
        )


class SpelledInBytes:
    """The common base of bytes and subwords: they can spell every text."""

    def unknown(self, text: str) -> list[str]:
        """Return an empty list: every symbol of a line is known."""
        return []


class ByteTokenizer(SpelledInBytes):
    """One id a byte of UTF-8 (id 4 is byte 0), and one for each special piece; nothing to learn.

    Every text is given back exactly. Bytes that are not UTF-8, which only a model can put
    together, are decoded as U+FFFD.
    """

    kind = "bytes"
    sampling = 0.0

    def __init__(self, special: Sequence[str] = ()) -> None:
        self.special = list(special)
        first_special = len(CONTROL) + 256
        self._ids = {piece: index for index, piece in enumerate(special, first_special)}
        self._splitter = special_splitter(special)
        values = [bytes([value]) for value in range(256)]
        self._bytes = [b"", b"", b"", CONTROL[UNK].encode(), *values, *map(str.encode, special)]
        self.vocab_size = len(self._bytes)
        self.line_breaks = frozenset(len(CONTROL) + value for value in b"\n\r")

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """The ids of a line of text, without begin and end; `rng` has nothing to choose here.

        Raises `DataError` for a lone surrogate, which UTF-8 cannot express.
        """
        parts = [text] if self._splitter is None else self._splitter.split(text)
        found: list[int] = []
        for index, part in enumerate(parts):
            if index % 2:  # every second part is a special piece
                found.append(self._ids[part])
            else:
                found.extend(value + len(CONTROL) for value in to_utf8(part))
        return found

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """`encode` for many lines."""
        return [self.encode(line, rng) for line in lines]

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """The ids of a line of which bytes are missing: `gap` between each two of its parts."""
        return _with_gaps([self.encode(part) for part in parts], gap)

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """The line of which bytes were missing, with those of the `found` ids in their place."""
        return fill(parts, found, self.decode)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; padding, begin and end are left out."""
        return b"".join([self._bytes[index] for index in ids]).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A readable piece for each id: printable ASCII as it is, other bytes like `<0x0A>`."""
        return [self._piece(index) for index in ids]

    def save(self, directory: Path, stem: str) -> None:
        """Write the special pieces to `directory/stem.json`."""
        write_metadata(directory, stem, {"kind": self.kind, "special": self.special})

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """The tokenizer that `save` wrote; `metadata` is what its JSON file holds."""
        return cls(string_list(metadata, "special"))

    def _piece(self, index: int) -> str:
        if index < len(CONTROL):
            return CONTROL[index]
        if index >= len(CONTROL) + 256:
            return self._bytes[index].decode()
        value = index - len(CONTROL)
        return chr(value) if 0x21 <= value <= 0x7E else f"<0x{value:02X}>"


def special_splitter(special: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern whose `split` puts special pieces at the odd places, the longest match first."""
    if not special:
        return None
    return re.compile("(" + "|".join(map(re.escape, sorted(special, key=len, reverse=True))) + ")")


def to_utf8(text: str) -> bytes:
    """The UTF-8 of a text; raises `DataError` for a lone surrogate, which UTF-8 cannot express."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(text[error.start]):04X}"
        raise DataError(
            f"character {error.start + 1} of {text[:40]!a} is {surrogate}, a lone surrogate, "
            "which is not text; remove it"
        ) from None


def write_metadata(directory: Path, stem: str, metadata: dict[str, Any]) -> None:
    """Write `directory/stem.json`, the file from which a tokenizer is loaded."""
    data = (json.dumps(metadata, ensure_ascii=True, indent=1) + "\n").encode()
    if len(data) > LARGEST_METADATA:  # it could not be read again
        raise ConfigError(
            f"a vocabulary of {len(data):,} bytes in {stem}.json, expected at most "
            f"{LARGEST_METADATA:,}; choose a smaller tokenizer.vocab_size"
        )
    atomic_write(directory / f"{stem}.json", data)


def string_list(metadata: dict[str, Any], key: str) -> list[str]:
    """The list of strings at `key`; raises `ValueError` where there is none."""
    found = metadata.get(key)
    if not isinstance(found, list) or not all(isinstance(piece, str) for piece in found):
        raise ValueError(f"{key!r} is not a list of strings")
    if key == "special":
        check_special(found)
    return found


def check_special(special: Sequence[str]) -> None:
    """Raise `ValueError` where there are more special pieces than a pattern can look for."""
    size = sum(map(len, special))
    if len(special) > MOST_SPECIAL or size > MOST_SPECIAL_CHARACTERS:
        raise ValueError(
            f"{len(special):,} special pieces of {size:,} characters, expected at most "
            f"{MOST_SPECIAL:,} of {MOST_SPECIAL_CHARACTERS:,} in all"
        )


def fill(parts: Sequence[str], found: Sequence[int], decode: Callable[[Sequence[int]], str]) -> str:
    """The parts as they are and, between each two, the text of one of the `found` ids.

    Ids with nothing between them are decoded together: they may spell one character.
    """
    texts, run = [parts[0]], []
    for index, part in zip(found, parts[1:], strict=True):
        run.append(index)
        if part:
            texts += [decode(run), part]
            run = []
    return "".join([*texts, decode(run)])


def _with_gaps(parts: Sequence[list[int]], gap: int) -> list[int]:
    """The parts as one list, with `gap` between each two."""
    first, *rest = parts
    return [*first, *chain.from_iterable([gap, *part] for part in rest)]


def _most_frequent(counts: Counter[str], fixed: Sequence[str], vocab_size: int) -> list[str]:
    """`fixed`, then the most frequent others (ties by code point), at most `vocab_size` in all."""
    if not counts:
        raise DataError("the tokenizer was given no text to learn from")
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
