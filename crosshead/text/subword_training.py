"""Learn SentencePiece models (Kudo and Richardson 2018) from text."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from crosshead.caller import setting
from crosshead.errors import ConfigError, DataError
from crosshead.text.pieces import CONTROL, NEW, load_pieces
from crosshead.text.subwords import escape
from crosshead.vocabulary import BOS, EOS, PAD, UNK

# SentencePiece counts positions inside a line in 16 bits and drops lines above a byte limit.
# Longer lines are split into chunks, so that none is dropped.
_TRAINING_CHUNK = 4096
_MOST_PIECES = 1_000_000


class VocabularyError(ConfigError):
    """A vocabulary size that does not fit the text."""

    def __init__(self, message: str, fits: int) -> None:
        super().__init__(message)
        self.fits = fits


def train_model(kind: str, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> bytes:
    """Learn a SentencePiece model; the same lines give the same bytes."""
    # If the requested size is too large, SentencePiece returns the largest size that fits. It fails
    # at once on fewer pieces than the fixed ones, and on sizes larger than its integers.
    size = min(max(vocab_size, len(CONTROL)), _MOST_PIECES)
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
