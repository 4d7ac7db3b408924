"""Pieces of text: the parts that tokenizers of every kind share.

Ids 0 to 3 are the same in all of them: padding, begin of sentence, end of sentence, unknown.
"""

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sentencepiece

from crosshead.errors import ConfigError, DamagedBundle, DataError
from crosshead.system.files import atomic_write
from crosshead.system.stored import LARGEST_METADATA, read_stored
from crosshead.vocabulary import EOS

Place = Path | str
"""The place of a model, for messages."""

NEW = "the tokenizer"
"""The place of a model that was just learned."""

CONTROL = ("<pad>", "<s>", "</s>", "<unk>")
"""The names of ids 0 to 3. Only `<unk>` can occur in decoded text."""

NOTHING = "(?!)"
"""A pattern that matches nowhere."""

MOST_SPECIAL, MOST_SPECIAL_CHARACTERS = 10_000, 200_000
"""The largest number of pieces that are never split, and of their characters."""


class Tokenizer(Protocol):
    """A map from text to ids and back.

    The ids of padding, begin, end and unknown are 0, 1, 2, 3 in all kinds. `decode(encode(text)) ==
    text` for every text of valid Unicode with `bpe`, `unigram` and `bytes`, and for every text of
    known symbols with `words` and `characters`. Tokenizers of imported models may normalise text.
    """

    kind: str
    """The `kind` in the configuration."""

    vocab_size: int
    """The number of ids."""

    _pieces: list[str]
    """A readable piece for each id."""

    special: list[str]
    """The pieces that are never split."""

    sampling: float = 0.0
    """The strength of subword sampling when an rng is given."""

    normalises: bool = False
    """True if the tokenizer of an imported model changes characters as that model expects."""

    spans_lines: bool = False
    """True if a text is encoded with its line breaks; False if its lines are, one by one."""

    prompt_start: tuple[int, ...] = (EOS,)
    """The ids that a language model reads before a prompt: the end of the line before it.

    In a tokenizer that spans lines they are what its library puts there, often nothing.
    """

    line_breaks: frozenset[int]
    r"""The ids whose text contains `\n` or `\r`: search never produces them.

    Empty for a tokenizer that spans lines.
    """

    @abstractmethod
    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """Return the ids of a line, without begin and end.

        Args:
            text: The line.
            rng: A random generator. With one, `bpe` samples the segmentation, with strength
                `sampling`.
        """

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """Return the ids of many lines, faster than one line at a time.

        Args:
            lines: The lines.
            rng: A random generator. With one, `bpe` samples the segmentation, with strength
                `sampling`.
        """
        return [self.encode(line, rng) for line in lines]

    def unknown(self, text: str) -> list[str]:
        """Return the symbols of a line that are encoded as `UNK`, in their order.

        Args:
            text: The line.
        """
        return []

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """Return the ids of a line with gaps: `gap` stands between each two of its parts.

        Args:
            parts: The parts of the line between the gaps.
            gap: The id that stands for a gap.
        """
        first, *rest = map(self.encode, parts)
        return [*first, *chain.from_iterable([gap, *part] for part in rest)]

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """Return the line of `encode_gaps` with the text of one id in each gap.

        The parts stay as given, including symbols that the vocabulary lacks. With `bpe` and
        `unigram` a space before a gap belongs to the piece, and stands there if the piece begins
        with one.

        Args:
            parts: The parts of the line between the gaps.
            found: One id for each gap.
        """
        return fill(parts, found, self.decode)

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids. Padding, begin and end are left out; unknown is `<unk>`.

        Args:
            ids: The ids.
        """

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable piece for each id.

        In subwords U+2581 stands for a space, and `<0x0A>` for a byte. The library `tokenizers` has
        pieces of its own; those of byte-level BPE have U+0120 for a space.

        Args:
            ids: The ids.
        """
        return [self._pieces[index] for index in ids]

    @abstractmethod
    def save(self, directory: Path, stem: str) -> None:
        """Write `directory/stem.json`, and any further files, for `load_tokenizer`.

        Args:
            directory: The directory of the files.
            stem: The beginning of their names.
        """


def special_splitter(special: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern whose `split` puts special pieces at odd places, the longest first."""
    pieces = map(re.escape, sorted(special, key=len, reverse=True))
    return re.compile(f"({'|'.join(pieces) or NOTHING})")


def to_utf8(text: str) -> bytes:
    """Return the UTF-8 encoding of a text."""
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
    if len(data) > LARGEST_METADATA:  # `read_metadata` would refuse it
        raise ConfigError(
            f"the vocabulary in {stem}.json has {len(data):,} bytes, expected at most "
            f"{LARGEST_METADATA:,}; choose a smaller tokenizer.vocab_size"
        )
    atomic_write(directory / f"{stem}.json", data)


def write_model(directory: Path, stem: str, model: bytes, metadata: dict[str, Any]) -> None:
    """Write `directory/stem.model`, and `stem.json` with the metadata and the model's checksum."""
    atomic_write(directory / f"{stem}.model", model)
    sha256 = hashlib.sha256(model).hexdigest()
    write_metadata(directory, stem, {**metadata, "model_sha256": sha256})


def stored_model(directory: Path, stem: str, metadata: dict[str, Any]) -> bytes:
    """Return the content of `directory/stem.model`, which belongs to a tokenizer's metadata."""
    path = directory / f"{stem}.model"
    model = read_stored(path)
    if hashlib.sha256(model).hexdigest() != metadata.get("model_sha256"):
        raise DamagedBundle(path, f"its SHA-256 is not the one in {stem}.json")
    return model


def load_pieces(
    model: bytes, where: Place
) -> tuple[sentencepiece.SentencePieceProcessor, list[str]]:
    """Return a SentencePiece model, and its pieces in the order of their ids."""
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        size = processor.vocab_size()
        return processor, [processor.id_to_piece(index) for index in range(size)]
    except (RuntimeError, UnicodeDecodeError):  # the second from bytes that are not UTF-8
        raise DamagedBundle(where, "no SentencePiece model, or a damaged one") from None


def control_ids(metadata: dict[str, Any]) -> tuple[int | None, int | None, int | None, int | None]:
    """Return another toolkit's ids of the control tokens from the metadata of a tokenizer."""
    found = metadata.get("control")
    if (
        not isinstance(found, list)
        or len(found) != len(CONTROL)
        or not all(each is None or type(each) is int for each in found)
    ):
        raise ValueError(f"'control' is not a list of {len(CONTROL)} ids")
    pad, begin, end, unknown = found
    return pad, begin, end, unknown


def string_list(metadata: dict[str, Any], key: str) -> list[str]:
    """Return a list of strings from the metadata of a tokenizer."""
    found = metadata.get(key)
    if not isinstance(found, list) or not all(isinstance(piece, str) for piece in found):
        raise ValueError(f"{key!r} is not a list of strings")
    if key == "special":
        check_special(found)
    return found


def check_special(special: Sequence[str]) -> None:
    """Raise `ValueError` if there are too many special pieces for a pattern."""
    size = sum(map(len, special))
    if len(special) > MOST_SPECIAL or size > MOST_SPECIAL_CHARACTERS:
        raise ValueError(
            f"{len(special):,} special pieces of {size:,} characters, expected at most "
            f"{MOST_SPECIAL:,} of {MOST_SPECIAL_CHARACTERS:,} in all"
        )


def fill(parts: Sequence[str], found: Sequence[int], decode: Callable[[Sequence[int]], str]) -> str:
    """Return the parts with the text of one `found` id between each two.

    Adjacent ids with nothing between them are decoded together, because they may spell one
    character.
    """
    texts, run = [parts[0]], []
    for index, part in zip(found, parts[1:], strict=True):
        run.append(index)
        if part:
            texts += [decode(run), part]
            run = []
    return "".join([*texts, decode(run)])
