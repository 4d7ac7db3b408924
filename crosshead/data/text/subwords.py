"""Subword tokenizers: SentencePiece models (Kudo and Richardson 2018), BPE and unigram.

SentencePiece learns the pieces and its `.model` file is what is stored. Text is taken as it is
(identity normalisation, white space kept), and characters that have no piece are spelled in bytes,
so that `decode(encode(text)) == text` for every text that is valid Unicode. SentencePiece writes a
space as U+2581; a U+2581 in the text itself is escaped before and restored after.

BPE is segmented here, from the pieces of the model, for two reasons: BPE-dropout has to depend on
nothing but the generator that it is given, and words repeat, so that a cache answers for most.
"""

import copy
import hashlib
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import sentencepiece

from crosshead.data.text.symbols import (
    CONTROL,
    SpelledInBytes,
    fill,
    special_splitter,
    string_list,
    to_utf8,
    write_metadata,
)
from crosshead.errors import DamagedBundle
from crosshead.system.files import atomic_write
from crosshead.system.stored import read_stored
from crosshead.vocabulary import UNK

SPACE = "\u2581"

_WALL = "\U0010ffff"
"""No character, so no vocabulary has it: it is spelled in bytes, which merge with nothing."""

ESCAPE = "\x1a"  # U+001A SUBSTITUTE, the control character least likely to mean anything
UNKNOWN_MARK = "\u2585"  # SentencePiece's own mark in training: it drops lines that contain it
RESERVED = ESCAPE + SPACE + UNKNOWN_MARK
"""The characters that are escaped: `ESCAPE` and their place in this string."""

_ESCAPE_TABLE = {ord(character): f"{ESCAPE}{n}" for n, character in enumerate(RESERVED)}
_ESCAPED = re.compile(f"{ESCAPE}([0-{len(RESERVED) - 1}])")
_RESERVED = re.compile(f"[{RESERVED}]")
_WORD = re.compile(f"{SPACE}?[^{SPACE}]+|{SPACE}", re.DOTALL)

_CACHED_WORDS = 500_000
_LONGEST_CACHED_WORD = 64


class SubwordTokenizer(SpelledInBytes):
    """The common base of BPE and unigram: a SentencePiece model's pieces, and decoding to text."""

    kind: str

    def __init__(self, model: bytes, special: Sequence[str] = (), sampling: float = 0.0) -> None:
        self.model = model
        self.special = list(special)
        self.sampling = sampling
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(model)
        self._processor = processor
        self.vocab_size: int = processor.vocab_size()
        self._pieces: list[str] = [processor.id_to_piece(i) for i in range(self.vocab_size)]
        self._bytes = [self._spelling(index) for index in range(self.vocab_size)]
        self.line_breaks = frozenset(
            index for index, spelling in enumerate(self._bytes) if set(spelling) & set(b"\n\r")
        )

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """The ids of a line of text, without begin and end.

        With `rng` the segmentation is drawn with the strength `sampling`.
        Raises `DataError` for a lone surrogate.
        """
        return self.encode_lines([text], rng)[0]

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """`encode` for many lines."""
        texts = [escape(line) for line in lines]
        found: list[list[int]] = self._processor.encode(texts, num_threads=1)
        return found

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """The ids of a line of which pieces are missing: `gap` between each two of its parts.

        A space before a gap belongs to the piece that is missing.
        """
        first, *rest = _without_spaces_of_gaps(parts)
        wall = self.encode(_WALL)
        ids = self.encode(first)
        for part in rest:
            # Behind the wall, the part does not begin a line.
            ids += [gap, *self.encode(_WALL + part)[len(wall) :]]
        return ids

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """The line of which pieces were missing, with those of the `found` ids in their place.

        A space before a gap is there again where the piece begins with one. Where a line begins
        with a gap, the space that its piece begins with is not shown, as in `decode`.
        """
        line = fill(_without_spaces_of_gaps(parts), found, self._text)
        return line if parts[0] else line.removeprefix(" ")

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; padding, begin and end are left out.

        Bytes that are not UTF-8, which only a model can put together, are decoded as U+FFFD.
        """
        return self._text(ids).removeprefix(" ")  # every line is encoded behind one space

    def _text(self, ids: Sequence[int]) -> str:
        """The text of ids wherever they stand in a line."""
        text = b"".join([self._bytes[index] for index in ids]).decode("utf-8", "replace")
        return _ESCAPED.sub(lambda match: RESERVED[int(match[1])], text) if ESCAPE in text else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A readable piece for each id: U+2581 stands for a space, `<0x0A>` for a byte."""
        return [self._pieces[index] for index in ids]

    def save(self, directory: Path, stem: str) -> None:
        """Write the SentencePiece model to `directory/stem.model`, the rest to `stem.json`."""
        atomic_write(directory / f"{stem}.model", self.model)
        metadata = {
            "kind": self.kind,
            "vocab_size": self.vocab_size,
            "special": self.special,
            "sampling": self.sampling,
            "model_sha256": hashlib.sha256(self.model).hexdigest(),
        }
        write_metadata(directory, stem, metadata)

    @classmethod
    def load(cls, directory: Path, stem: str, metadata: dict[str, Any]) -> Self:
        """The tokenizer that `save` wrote; `metadata` is what its JSON file holds.

        Raises `DamagedBundle` where the model file is missing or is not the one that was saved, and
        `ValueError` where the metadata are not those of a tokenizer.
        """
        path = directory / f"{stem}.model"
        model = read_stored(path)
        if hashlib.sha256(model).hexdigest() != metadata.get("model_sha256"):
            raise DamagedBundle(path, f"its SHA-256 is not the one in {stem}.json")
        sampling = metadata.get("sampling")
        special = string_list(metadata, "special")
        if not isinstance(sampling, float) or not 0 <= sampling < 1:
            raise ValueError("'sampling' is not a number from 0 to below 1")
        try:
            found = cls(model, special, sampling)
        except RuntimeError:
            raise DamagedBundle(path, "no SentencePiece model") from None
        first = found.pieces(range(min(len(CONTROL), found.vocab_size)))
        if first != list(CONTROL):
            raise DamagedBundle(path, f"its first pieces are {first}, expected {list(CONTROL)}")
        return found

    def _spelling(self, index: int) -> bytes:
        """The bytes of text that an id stands for."""
        piece = self._pieces[index]
        if index == UNK:
            return CONTROL[UNK].encode()
        if self._processor.is_control(index):
            return b""
        if self._processor.is_byte(index):
            return bytes([int(piece[3:5], 16)])
        return piece.replace(SPACE, " ").encode()


class UnigramTokenizer(SubwordTokenizer):
    """A unigram language model of pieces (Kudo 2018): the most probable segmentation."""

    kind = "unigram"


class BpeTokenizer(SubwordTokenizer):
    """Byte-pair encoding (Sennrich 2016), with BPE-dropout (Provilkov 2020) on request.

    Without `rng` the segmentation is SentencePiece's own. With it, at every step each merge that
    is possible is dropped with probability `sampling`, independently, the best of the rest is
    made, and the word is done when none is left (Provilkov 2020, Algorithm 1): exactly this
    distribution, drawn from `rng` alone.
    """

    kind = "bpe"

    def __init__(self, model: bytes, special: Sequence[str] = (), sampling: float = 0.0) -> None:
        super().__init__(model, special, sampling)
        # A user-defined piece is found before merging starts: it is an id, but never a merge.
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

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """`encode` for many lines, one after the other."""
        if rng is None or self.sampling == 0:
            return [self._encode_line(escape(line)) for line in lines]
        return [self._sample_line(escape(line), rng) for line in lines]

    def with_sampling(self, sampling: float) -> Self:
        """Return this tokenizer with another strength of sampling."""
        other = copy.copy(self)
        other.sampling = sampling
        return other

    def _encode_line(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in self._words(text):
            ids.extend(self._segment(word)[0])
        return ids

    def _sample_line(self, text: str, rng: np.random.Generator) -> list[int]:
        """Draw, for every step, how many of the best merges in a row are dropped.

        A word of n characters makes at most n - 1 merges and one attempt that ends it: n draws
        belong to it. Where no merge of the usual segmentation is dropped, that is the result.
        """
        # One more than the text for the space in front. A geometric number of trials, less the
        # successful one, is the number of failures before it.
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
        """Yield the units that are segmented alone: special pieces, words with a leading space."""
        if not text:
            return
        text = SPACE + text.replace(" ", SPACE)
        if self._splitter is None:
            yield from _WORD.findall(text)
            return
        for index, part in enumerate(self._splitter.split(text)):
            if index % 2:
                yield part
            else:
                yield from _WORD.findall(part)

    def _segment(self, word: str) -> tuple[list[int], int]:
        """The ids of a word, none of its merges dropped, and how many merges that took."""
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
        """Merge the characters of a word, best merge first, the leftmost of equals.

        `drops` gives for every step how many of the best merges are passed over; without it none
        is. The merges possible are kept in a heap of (rank, left, right, merged piece); an entry
        whose neighbours have changed since is out of date and thrown away when it is met.
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
        """The ids of pieces; a character without a piece is spelled in bytes."""
        ids: list[int] = []
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                ids.append(index)
            else:
                ids.extend(self._byte_ids[value] for value in to_utf8(piece))
        return ids


def _without_spaces_of_gaps(parts: Sequence[str]) -> list[str]:
    """The parts of a line without the space before each gap, which belongs to what is missing."""
    *before, last = parts
    return [*(part.removesuffix(" ") for part in before), last]


def escape(text: str) -> str:
    """The text with every reserved character escaped; raises `DataError` for a lone surrogate."""
    if not text.isascii():
        to_utf8(text)
    return text.translate(_ESCAPE_TABLE) if _RESERVED.search(text) else text
