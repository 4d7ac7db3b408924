"""Tokenizers: their interface and configuration, training and loading.

The kinds are in other modules: `subwords` (BPE and unigram), `symbols` (words, characters, bytes),
and `imported` (tokenizers of imported models).
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import sentencepiece
from pydantic import Field, field_validator, model_validator

from crosshead.caller import option, setting
from crosshead.config import Config
from crosshead.errors import ConfigError, DamagedBundle, DataError
from crosshead.system.stored import read_metadata
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.pieces import CONTROL, NEW, Tokenizer, check_special, load_pieces
from crosshead.text.subwords import RESERVED, BpeTokenizer, UnigramTokenizer, escape
from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer, WordTokenizer
from crosshead.text.visible import visible
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
"""The largest vocabulary size that is chosen automatically."""

JOINT, SIDES = "tokenizer", ("source", "target")
"""File name stems in a directory: of a joint tokenizer, and of separate tokenizers for each
side."""

TOKENIZER_FILES = [f"{stem}.{end}" for stem in (JOINT, *SIDES) for end in ("json", "model")]
"""The names of all files that tokenizers can have in a directory."""


class TokenizerConfig(Config):
    """Settings of the tokenizer: the section `[tokenizer]` of a recipe."""

    kind: Literal[
        "bpe", "unigram", "words", "characters", "bytes", "sentencepiece", "tokenizer-json"
    ] = "bpe"
    """The units: subwords by BPE or a unigram model, words, characters, or bytes. `sentencepiece`
    and `tokenizer-json` are tokenizers of imported models, which are kept in fine-tuning and cannot
    be learned."""

    vocab_size: int | None = Field(default=None, gt=0, le=2**24)
    """The number of ids, including the four fixed ones. For words and characters it is an upper
    bound (the most frequent are kept); for bytes it has no effect. Unset, training chooses: for BPE
    and unigram 9.6 ids for each square root of the number of words, from 500 to 8,000 and no more
    than the text allows; otherwise 8,000."""

    joint: bool = True
    """True shares one tokenizer between both sides; false learns one for each side."""

    special: list[str] = Field(default_factory=list)
    """Pieces that are never split, such as `<2de>` or `@@URL@@`."""

    sampling: float = Field(default=0.0, ge=0, lt=1)
    """BPE-dropout: the probability of dropping a merge (Provilkov 2020), in training only.
    SentencePiece's `alpha` of the same number is about twice as strong."""

    @field_validator("special")
    @classmethod
    def _special_pieces(cls, special: list[str]) -> list[str]:
        check_special(special)
        seen: set[str] = set()
        for piece in special:
            if not piece or any(character.isspace() for character in piece):
                raise ValueError(f"{piece!r} is empty or contains white space; leave it out")
            if set(piece) & set(RESERVED):
                raise ValueError(f"{piece!a} contains U+001A, U+2581 or U+2585, which are reserved")
            if piece in CONTROL or piece in _BYTE_PIECES:
                raise ValueError(f"{piece!r} is the name of a piece that every tokenizer has")
            if piece in seen:
                raise ValueError(f"{piece!r} is given twice")
            seen.add(piece)
        return special

    @model_validator(mode="after")
    def _only_bpe_is_sampled(self) -> Self:
        if self.sampling and self.kind != "bpe":
            raise ValueError(f"sampling needs kind = 'bpe', found kind = {self.kind!r}")
        return self


_BYTE_PIECES = frozenset(f"<0x{value:02X}>" for value in range(256))


def train_tokenizer(config: TokenizerConfig, lines: Iterable[str]) -> Tokenizer:
    """Learn a tokenizer from lines of text; the same lines give the same tokenizer.

    White space around a line is learned from as well. Lines of pairs come without it (`token_ids`).

    Args:
        config: The settings. If `vocab_size` is None, `MOST_PIECES` is used.
        lines: The text.

    Returns:
        The tokenizer.

    Raises:
        ConfigError: If the vocabulary does not fit the text; the message names the largest or
            smallest size that fits. Also if the kind is that of imported models.
        DataError: If there is no text.
    """
    if config.kind in (ImportedTokenizer.kind, JsonTokenizer.kind):
        raise ConfigError(
            f"is {config.kind!r}, the tokenizer of imported models, which cannot be learned; "
            f"choose 'bpe', or fine-tune an imported bundle ({option('from')})",
            key="tokenizer.kind",
        )
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
    """Return the ids of lines as people see them (`visible`), without white space around them.

    Training, validation, translation and scoring of pairs all tokenize with this function.

    Args:
        tokenizer: The tokenizer.
        lines: The lines.
        rng: A random generator for a sampled segmentation, as in `Tokenizer.encode`.
    """
    read = str if tokenizer.normalises else visible
    return tokenizer.encode_lines([read(line).strip() for line in lines], rng)


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer, *, joint: bool) -> None:
    """Write the tokenizers of both sides for `load_tokenizers`.

    Args:
        directory: The directory of the files.
        source: The source tokenizer.
        target: The target tokenizer.
        joint: True if both are the same tokenizer, which is then written once.
    """
    if joint:
        source.save(directory, JOINT)
    else:
        for stem, tokenizer in zip(SIDES, (source, target), strict=True):
            tokenizer.save(directory, stem)


def load_tokenizers(directory: Path, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Return the source and the target tokenizer of a directory.

    Args:
        directory: The directory of the files.
        joint: Whether both sides share one tokenizer.

    Raises:
        DamagedBundle: As `load_tokenizer` does.
    """
    if joint:
        both = load_tokenizer(directory, JOINT)
        return both, both
    source, target = (load_tokenizer(directory, stem) for stem in SIDES)
    return source, target


def load_tokenizer(directory: Path, stem: str) -> Tokenizer:
    """Return the tokenizer that `save` wrote under a name.

    Args:
        directory: The directory of the files.
        stem: The beginning of their names: `tokenizer`, `source` or `target`.

    Raises:
        DamagedBundle: If a file is missing, damaged, or of an unknown kind; the message names the
            file.
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
    each.kind: each.load
    for each in (
        BpeTokenizer, UnigramTokenizer, WordTokenizer, CharacterTokenizer, ByteTokenizer,
        ImportedTokenizer, JsonTokenizer,
    )
}  # fmt: skip

# SentencePiece counts positions inside a line in 16 bits and drops lines above a byte limit.
# Longer lines are split into chunks, so that none is dropped.
_TRAINING_CHUNK = 4096
_LARGEST_SIZE = 1_000_000


class VocabularyError(ConfigError):
    """A vocabulary size that does not fit the text."""

    def __init__(self, message: str, fits: int) -> None:
        super().__init__(message)
        self.fits = fits


def train_model(kind: str, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> bytes:
    """Learn a SentencePiece model; the same lines give the same bytes."""
    # If the requested size is too large, SentencePiece returns the largest size that fits. It fails
    # at once on fewer pieces than the fixed ones, and on sizes larger than its integers.
    size = min(max(vocab_size, len(CONTROL)), _LARGEST_SIZE)
    try:
        model = _train(kind, lines, size, special)
    except RuntimeError as error:
        raise _explain(str(error), vocab_size) from None
    largest = len(load_pieces(model, NEW)[1])
    if largest < vocab_size:
        raise VocabularyError(
            f"tokenizer.vocab_size={vocab_size} is larger than the data allow; the largest that "
            f"fits is {largest}: "
            f"{setting('tokenizer.vocab_size', largest)}",
            largest,
        )
    return model


def _train(kind: str, lines: Iterable[str], size: int, special: Sequence[str]) -> bytes:
    """Return a SentencePiece model of `size` pieces, or of fewer if the text allows no more."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_training_chunks(lines),
        model_writer=writer,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        user_defined_symbols=list(special),
        # The rarest characters, one in ten thousand, are spelled in bytes.
        character_coverage=0.9999,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=16 * _TRAINING_CHUNK,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        pad_piece=CONTROL[PAD],
        num_threads=1,  # sums depend on the number of threads
        minloglevel=2,
    )
    return writer.getvalue()


def _training_chunks(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = escape(line)
        for first in range(0, len(text), _TRAINING_CHUNK):
            yield text[first : first + _TRAINING_CHUNK]


def _explain(message: str, vocab_size: int) -> Exception:
    """Return a crosshead error for an error message of SentencePiece."""
    if "sentences_.empty()" in message:
        return DataError("there is no text to learn a tokenizer from")
    too_low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_low:
        smallest = int(too_low[1])
        return VocabularyError(
            f"tokenizer.vocab_size={vocab_size} is too small for the characters and bytes of the "
            f"data; the smallest that fits is {smallest}: "
            f"{setting('tokenizer.vocab_size', smallest)}",
            smallest,
        )
    return DataError(f"SentencePiece cannot learn from these data: {' '.join(message.split())}")
