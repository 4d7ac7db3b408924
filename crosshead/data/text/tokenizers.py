"""Tokenizers: the one interface, its configuration, how one is trained and how one is loaded.

The kinds stand beside this file: `subwords` (BPE and unigram) and `symbols` (words, characters,
bytes).
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from crosshead.config import Config
from crosshead.data.text.subword_training import train_model
from crosshead.data.text.subwords import RESERVED, BpeTokenizer, UnigramTokenizer
from crosshead.data.text.symbols import (
    CONTROL,
    ByteTokenizer,
    CharacterTokenizer,
    WordTokenizer,
    check_special,
)
from crosshead.errors import DamagedBundle
from crosshead.system.stored import read_metadata
from crosshead.vocabulary import BOS, EOS, PAD, UNK

__all__ = [
    "BOS",
    "EOS",
    "MOST_PIECES",
    "PAD",
    "TOKENIZER_FILES",
    "UNK",
    "Tokenizer",
    "TokenizerConfig",
    "load_tokenizer",
    "load_tokenizers",
    "save_tokenizers",
    "token_ids",
    "train_tokenizer",
]


MOST_PIECES = 8000
"""The largest vocabulary of those that nobody stated."""

JOINT, SIDES = "tokenizer", ("source", "target")
"""File names in a directory: of a joint tokenizer, and of separate ones for each side."""

TOKENIZER_FILES = [f"{stem}.{end}" for stem in (JOINT, *SIDES) for end in ("json", "model")]
"""The names of all files that tokenizers can have in a directory."""


class TokenizerConfig(Config):
    """Settings of the tokenizer: the section `[tokenizer]` of a recipe."""

    kind: Literal["bpe", "unigram", "words", "characters", "bytes"] = "bpe"
    """The units: subwords by BPE or a unigram model, words, characters, or bytes."""

    vocab_size: int | None = Field(default=None, gt=0, le=2**24)
    """Ids in all, the four fixed ones included; for words and characters the upper bound (the
    most frequent are kept), for bytes without meaning. Unset, training chooses: an id for every 80
    words of text, from 500 to 8,000 and no more than the text allows; 8,000 as an upper bound."""

    joint: bool = True
    """One tokenizer for both sides, or one for each."""

    special: list[str] = Field(default_factory=list)
    """Pieces that are never split, such as `<2de>` or `@@URL@@`."""

    sampling: float = Field(default=0.0, ge=0, lt=1)
    """BPE-dropout: the probability of passing over a merge (Provilkov 2020), in training only."""

    @field_validator("special")
    @classmethod
    def _special_pieces(cls, special: list[str]) -> list[str]:
        check_special(special)
        seen: set[str] = set()
        for piece in special:
            if not piece or any(character.isspace() for character in piece):
                raise ValueError(f"{piece!r} is empty or has white space in it")
            if set(piece) & set(RESERVED):
                raise ValueError(f"{piece!a} holds U+001A, U+2581 or U+2585, which are reserved")
            if any("\ud800" <= character <= "\udfff" for character in piece):
                raise ValueError(f"{piece!a} holds a lone surrogate, which is not text")
            if piece in CONTROL or piece in _BYTE_PIECES:
                raise ValueError(f"{piece!r} is the name of a piece that every tokenizer has")
            if piece in seen:
                raise ValueError(f"{piece!r} is given twice")
            seen.add(piece)
        return special

    @model_validator(mode="after")
    def _only_bpe_is_sampled(self) -> Self:
        if self.sampling and self.kind != "bpe":
            raise ValueError(f"sampling is for kind = 'bpe', found kind = {self.kind!r}")
        return self


_BYTE_PIECES = frozenset(f"<0x{value:02X}>" for value in range(256))


class Tokenizer(Protocol):
    """Text to ids and back; ids of padding, begin, end and unknown are 0, 1, 2, 3 in all kinds.

    `decode(encode(text)) == text` for every text of valid Unicode with `bpe`, `unigram` and
    `bytes`, and for every text of known symbols with `words` and `characters`.
    """

    @property
    def kind(self) -> str:
        """The `kind` of the configuration."""
        ...

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        ...

    @property
    def special(self) -> list[str]:
        """The pieces that are never split."""
        ...

    @property
    def sampling(self) -> float:
        """The strength of subword sampling when an rng is given."""
        ...

    @property
    def line_breaks(self) -> frozenset[int]:
        r"""The ids whose text contains `\n` or `\r`: search never produces them."""
        ...

    def encode(self, text: str, rng: np.random.Generator | None = None) -> list[int]:
        """The ids of a line, without begin and end; with `rng`, a sampled segmentation."""
        ...

    def encode_lines(
        self, lines: Iterable[str], rng: np.random.Generator | None = None
    ) -> list[list[int]]:
        """`encode` for many lines, faster than one at a time."""
        ...

    def unknown(self, text: str) -> list[str]:
        """The symbols of a line that are `UNK` among its ids, in their order."""
        ...

    def encode_gaps(self, parts: Sequence[str], gap: int) -> list[int]:
        """The ids of a line of which something is missing: `gap` between each two of its parts."""
        ...

    def fill_gaps(self, parts: Sequence[str], found: Sequence[int]) -> str:
        """The line of `encode_gaps` with an id in each gap: its parts are as they are given.

        Symbols that the vocabulary lacks stay themselves. Of `bpe` and `unigram` a space before a
        gap belongs to the piece, and is there where the piece begins with one.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; padding, begin and end are left out, unknown is `<unk>`."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """A readable piece for each id."""
        ...

    def save(self, directory: Path, stem: str) -> None:
        """Write `directory/stem.json`, and what belongs to it, for `load_tokenizer`."""
        ...


def train_tokenizer(config: TokenizerConfig, lines: Iterable[str]) -> Tokenizer:
    """Learn a tokenizer from lines of text; the same lines give the same tokenizer.

    The white space around a line is learned from as well: of pairs it is no part, and has been
    taken away (`token_ids`). A size that is not stated is `MOST_PIECES`. Raises `ConfigError` where
    the vocabulary does not fit the text (with the largest or smallest size that does), and
    `DataError` where there is none.
    """
    size = MOST_PIECES if config.vocab_size is None else config.vocab_size
    if config.kind == "words":
        return WordTokenizer.train(lines, size, config.special)
    if config.kind == "characters":
        return CharacterTokenizer.train(lines, size, config.special)
    if config.kind == "bytes":
        return ByteTokenizer(config.special)
    model = train_model(config.kind, lines, size, config.special)
    if config.kind == "bpe":
        return BpeTokenizer(model, config.special, config.sampling)
    return UnigramTokenizer(model, config.special)


def token_ids(
    tokenizer: Tokenizer, lines: Iterable[str], rng: np.random.Generator | None = None
) -> list[list[int]]:
    """The ids of lines as a model sees them: without the white space around each line.

    Training, validation, translation and scoring all have their ids from here; `rng` is that of
    `Tokenizer.encode`.
    """
    return tokenizer.encode_lines([line.strip() for line in lines], rng)


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer, *, joint: bool) -> None:
    """Write the tokenizers of both sides, once where they are one, for `load_tokenizers`."""
    if joint:
        source.save(directory, JOINT)
    else:
        for stem, tokenizer in zip(SIDES, (source, target), strict=True):
            tokenizer.save(directory, stem)


def load_tokenizers(directory: Path, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """The source and the target tokenizer of a directory; raises what `load_tokenizer` raises."""
    if joint:
        both = load_tokenizer(directory, JOINT)
        return both, both
    source, target = (load_tokenizer(directory, stem) for stem in SIDES)
    return source, target


def load_tokenizer(directory: Path, stem: str) -> Tokenizer:
    """The tokenizer that `save` wrote under `stem` (`tokenizer`, `source` or `target`).

    Raises `DamagedBundle` naming the file where one is missing, damaged, or of an unknown kind.
    """
    path = directory / f"{stem}.json"
    metadata = read_metadata(path)
    kind = metadata.get("kind")
    if not isinstance(kind, str) or kind not in _LOADERS:
        known = ", ".join(sorted(_LOADERS))
        raise DamagedBundle(path, f"expected a kind of tokenizer ({known}), found {kind!r}")
    try:
        return _LOADERS[kind](directory, stem, metadata)
    except ValueError as error:
        raise DamagedBundle(path, str(error)) from None


_LOADERS: dict[str, Callable[[Path, str, dict[str, Any]], Tokenizer]] = {
    "bpe": BpeTokenizer.load,
    "unigram": UnigramTokenizer.load,
    "words": WordTokenizer.load,
    "characters": CharacterTokenizer.load,
    "bytes": ByteTokenizer.load,
}
