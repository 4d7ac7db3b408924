"""Subword tokenizers: SentencePiece models (Kudo and Richardson 2018), BPE and unigram.

SentencePiece learns the pieces, and its `.model` file is stored. Text is not normalised, white
space is kept, and characters without a piece are spelled in bytes. Therefore `decode(encode(text))
== text` for every text of valid Unicode. SentencePiece writes a space as U+2581. A U+2581 in the
text itself is escaped before encoding and restored after decoding.

BPE-dropout is implemented here, on the pieces of the model, because it must depend only on the
given random generator.
"""

import copy
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from crosshead.errors import DamagedBundle
from crosshead.text.pieces import (
    CONTROL,
    NEW,
    Place,
    Tokenizer,
    fill,
    load_pieces,
    special_splitter,
    stored_model,
    string_list,
    to_utf8,
    write_model,
)
from crosshead.vocabulary import UNK

SPACE = "\u2581"

_WALL = "\U0010ffff"
"""A code point that is no character and in no vocabulary. Its bytes merge with nothing."""

ESCAPE = "\x1a"  # U+001A SUBSTITUTE, the control character least likely to mean anything
UNKNOWN_MARK = "\u2585"  # SentencePiece's own mark in training: it drops lines that contain it
RESERVED = ESCAPE + SPACE + UNKNOWN_MARK
"""The characters that are escaped. An escape is `ESCAPE` and the index in this string."""

_ESCAPE_TABLE = {ord(character): f"{ESCAPE}{n}" for n, character in enumerate(RESERVED)}
_ESCAPED = re.compile(f"{ESCAPE}([0-{len(RESERVED) - 1}])")
_RESERVED = re.compile(f"[{RESERVED}]")
_WORD = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}", re.DOTALL)

_CACHED_WORDS = 500_000
_LONGEST_CACHED_WORD = 64


class SubwordTokenizer(Tokenizer):
    """The base of BPE and unigram: the pieces of a SentencePiece model, and decoding to text."""

    def __init__(
        self, model: bytes, special: Sequence[str] = (), sampling: float = 0.0, where: Place = NEW
    ) -> None:
        self.model = model
        self.special = list(special)
        self.sampling = sampling
        self._processor, self._pieces = load_pieces(model, where)
        self.vocab_size = len(self._pieces)
        self._bytes = [self._spelling(index) for index in range(self.vocab_size)]
        self.line_breaks = frozenset(
            index for index, spelling in enumerate(self._bytes) if set(spelling) & set(b"\n\r")
        )

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a line of text, without begin and end."""
        return self.encode_lines([text], rng)[0]

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """Return the ids of many lines, as `encode` does."""
        texts = [escape(line) for line in lines]
        found: list[list[int]] = self._processor.encode(texts, num_threads=1)
        return found

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """Return the ids of a line with missing pieces: `gap` stands between each two parts.

        A space before a gap belongs to the missing piece.
        """
        first, *rest = _without_spaces_of_gaps(parts)
        wall = self.encode(_WALL)
        ids = self.encode(first)
        for part in rest:
            # Without the wall, the part would be encoded as the beginning of a line.
            ids += [gap, *self.encode(_WALL + part)[len(wall) :]]
        return ids

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """Return the line with the text of `found` in its gaps.

        A space stands before a gap if its piece begins with one. At the beginning of a line this
        space is left out, as in `decode`.
        """
        line = fill(_without_spaces_of_gaps(parts), found, self._text)
        return line if parts[0] else line.removeprefix(" ")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; padding, begin and end are left out.

        Invalid UTF-8, which only a model can produce, is decoded as U+FFFD.
        """
        return self._text(ids).removeprefix(" ")  # encoding puts one space before every line

    def _text(self, ids: Sequence[int]) -> str:
        """Return the text of ids at any place in a line."""
        text = b"".join([self._bytes[index] for index in ids]).decode("utf-8", "replace")
        return _ESCAPED.sub(lambda match: RESERVED[int(match[1])], text) if ESCAPE in text else text

    def save(self, directory: Path, stem: str) -> None:
        """Write the SentencePiece model to `directory/stem.model` and the rest to `stem.json`."""
        metadata = {
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "special": self.special,
            "sampling": self.sampling,
        }
        write_model(directory, stem, self.model, metadata)

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """Return the tokenizer that `save` wrote."""
        path, model = directory / f"{stem}.model", stored_model(directory, stem, metadata)
        sampling = metadata.get("sampling")
        special = string_list(metadata, "special")
        if not isinstance(sampling, float) or not 0 <= sampling < 1:
            raise ValueError("'sampling' is not a number from 0 to below 1")
        found = cls(model, special, sampling, path)
        first = found.pieces(range(min(len(CONTROL), found.vocab_size)))
        if first != list(CONTROL):
            raise DamagedBundle(path, f"its first pieces are {first}, expected {list(CONTROL)}")
        return found

    def _spelling(self, index: int) -> bytes:
        """Return the bytes of text that an id stands for."""
        piece = self._pieces[index]
        if index == UNK:
            return CONTROL[UNK].encode()
        if self._processor.is_control(index):
            return b""
        if self._processor.is_byte(index):
            return bytes([int(piece[3:5], 16)])
        return piece.replace(SPACE, " ").encode()


class UnigramTokenizer(SubwordTokenizer):
    """A tokenizer with a unigram language model: the most probable segmentation.

    Reference:
        Kudo 2018.
    """

    kind = "unigram"


class BpeTokenizer(SubwordTokenizer):
    """Byte-pair encoding, with BPE-dropout on request.

    Without `rng` the segmentation is the same as SentencePiece's. With `rng`, every step drops each
    possible merge independently with probability `sampling` and makes the best remaining merge. The
    word is done when no merge is left. The distribution is exact and depends on `rng` alone.

    Reference:
        Sennrich et al. 2016; Provilkov et al. 2020, Algorithm 1 (BPE-dropout).
    """

    kind = "bpe"

    def __init__(
        self, model: bytes, special: Sequence[str] = (), sampling: float = 0.0, where: Place = NEW
    ) -> None:
        super().__init__(model, special, sampling, where)
        # User-defined pieces are found before merging starts. They take part in no merge.
        self._special_ids = {piece: self._pieces.index(piece) for piece in special}
        self._splitter = special_splitter(special)
        self._ids: dict[str, int] = {}
        self._ranks: dict[str, float] = {}
        for index, piece in enumerate(self._pieces):
            if index <= UNK or piece in self._special_ids or self._processor.is_byte(index):
                continue
            self._ids[piece] = index
            self._ranks[piece] = -self._processor.get_score(index)  # scores are minus the order
        self._byte_ids = [self._processor.piece_to_id(f"<0x{value:02X}>") for value in range(256)]
        self._cache: dict[str, tuple[list[int], int]] = {}

    @property
    def is_in_order(self) -> bool:
        """True if ids count merges, the first one first, and each byte has an id."""
        ranks = list(self._ranks.values())
        return ranks == sorted(set(ranks)) and UNK not in self._byte_ids

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """Return the ids of many lines, as `encode` does."""
        if rng is None or self.sampling == 0:
            return super().encode_lines(lines)
        return [self._sample_line(escape(line), rng) for line in lines]

    def with_sampling(self, sampling: float) -> Self:
        """Return this tokenizer with another strength of sampling."""
        copied = copy.copy(self)
        copied.sampling = sampling
        return copied

    def _sample_line(self, text: str, rng: np.random.Generator) -> list[int]:
        """Sample a segmentation: draw, for every step, how many of the best merges are dropped.

        A word of n characters needs at most n - 1 merges and one final attempt, so that n draws
        belong to it. If no merge of the usual segmentation is dropped, the result is the usual
        segmentation.
        """
        # One draw more than characters, for the space in front. A geometric number of trials minus
        # one is the number of failures before the success.
        draws = (rng.geometric(1 - self.sampling, len(text) + 1) - 1).tolist()
        ids: list[int] = []
        first = 0
        for word in self._words(text):
            plain, merges = self._segment(word)
            if any(draws[first : first + merges]):
                own = iter(draws[first : first + len(word)])
                ids.extend(self._spell(self._merge(word, own)))
            else:
                ids.extend(plain)
            first += len(word)
        return ids

    def _words(self, text: str) -> Iterator[str]:
        """Yield the units that are segmented separately: special pieces, and words with a space."""
        if not text:
            return
        text = SPACE + text.replace(" ", SPACE)
        for index, part in enumerate(self._splitter.split(text)):
            if index % 2:
                yield part
            else:
                yield from _WORD.findall(part)

    def _segment(self, word: str) -> tuple[list[int], int]:
        """Return the ids of a word without dropped merges, and the number of merges."""
        found = self._cache.get(word)
        if found is not None:
            return found
        if word in self._special_ids:
            return [self._special_ids[word]], 0
        pieces = self._merge(word, None)
        segmented = self._spell(pieces), len(word) - len(pieces)
        if len(word) <= _LONGEST_CACHED_WORD:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = segmented
        return segmented

    def _merge(self, word: str, drops: Iterator[int] | None) -> list[str]:
        """Merge the characters of a word: the best merge first, and the leftmost of equal merges.

        `drops` gives the number of best merges to drop at every step; None drops none. Possible
        merges are kept in a heap of (rank, left, right, merged piece). An entry whose neighbours
        have changed is outdated and discarded when it is popped.
        """
        ranks = self._ranks
        symbols: list[str] = list(word)
        end = len(symbols)
        following = list(range(1, end + 1))
        preceding = list(range(-1, end - 1))
        heap: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right < end:
                merged = symbols[left] + symbols[right]
                if merged in ranks:
                    heapq.heappush(heap, (ranks[merged], left, right, merged))

        for left in range(end - 1):
            offer(left, left + 1)
        while heap:
            passed = 0 if drops is None else next(drops)
            dropped: list[tuple[float, int, int, str]] = []
            best = None
            while heap:
                entry = heapq.heappop(heap)
                _, left, right, merged = entry
                if following[left] != right or symbols[left] + symbols[right] != merged:
                    continue
                if len(dropped) == passed:
                    best = entry
                    break
                dropped.append(entry)
            if best is None:
                break
            for entry in dropped:
                heapq.heappush(heap, entry)
            _, left, right, merged = best
            symbols[left], symbols[right] = merged, ""
            after = following[left] = following[right]
            following[right] = -1
            if after < end:
                preceding[after] = left
            offer(preceding[left], left)
            offer(left, after)
        return [symbol for symbol in symbols if symbol]

    def _spell(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of pieces. A character without a piece is spelled in bytes."""
        ids: list[int] = []
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                ids.append(index)
            else:
                ids.extend(self._byte_ids[value] for value in to_utf8(piece))
        return ids


def _without_spaces_of_gaps(parts: Sequence[str]) -> list[str]:
    """Return the parts of a line without the space before each gap, which is a part of the gap."""
    *before, last = parts
    return [*(part.removesuffix(" ") for part in before), last]


def escape(text: str) -> str:
    """Return the text with every reserved character escaped."""
    if not text.isascii():
        to_utf8(text)
    return text.translate(_ESCAPE_TABLE) if _RESERVED.search(text) else text
