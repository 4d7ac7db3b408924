"""SentencePiece models (Kudo and Richardson 2018) learned from text."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from crosshead.data.text.subwords import escape
from crosshead.data.text.symbols import CONTROL
from crosshead.errors import ConfigError, DataError
from crosshead.vocabulary import BOS, EOS, PAD, UNK

# SentencePiece counts positions inside a line in 16 bits and drops lines over a limit of bytes:
# longer lines are learned from in chunks, so that none is dropped.
_TRAINING_CHUNK = 4096
_MOST_PIECES = 1_000_000


class VocabularyError(ConfigError):
    """A size of vocabulary that does not fit the text; `fits` is the nearest one that does."""

    def __init__(self, message: str, fits: int) -> None:
        super().__init__(message)
        self.fits = fits


def train_model(kind: str, lines: Iterable[str], vocab_size: int, special: Sequence[str]) -> bytes:
    """Learn a SentencePiece model (`bpe` or `unigram`); the same lines give the same bytes.

    Raises `VocabularyError` where `vocab_size` is larger or smaller than the text allows, and
    `DataError` where there is no text.
    """
    # Asked for more than there is, SentencePiece gives all there is: the largest size that fits.
    # With fewer pieces than the fixed ones, or more than its integers, it would not even begin.
    size = min(max(vocab_size, len(CONTROL)), _MOST_PIECES)
    try:
        model = _train(kind, lines, size, special)
    except RuntimeError as error:
        raise _explain(str(error), vocab_size) from None
    largest = sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size()
    if largest < vocab_size:
        raise VocabularyError(
            f"tokenizer.vocab_size={vocab_size} is larger than the data allow; the largest that "
            f"fits is {largest}: --set tokenizer.vocab_size={largest}",
            largest,
        )
    return model


def _train(kind: str, lines: Iterable[str], size: int, special: Sequence[str]) -> bytes:
    """A SentencePiece model of `size` pieces, or of as many as the text allows."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_training_chunks(lines),
        model_writer=writer,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,
        user_defined_symbols=list(special),
        # The rarest characters, one in ten thousand, are left to bytes.
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
        num_threads=1,  # sums over threads depend on their number
        minloglevel=2,
    )
    return writer.getvalue()


def _training_chunks(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = escape(line)
        for first in range(0, len(text), _TRAINING_CHUNK):
            yield text[first : first + _TRAINING_CHUNK]


def _explain(message: str, vocab_size: int) -> Exception:
    """Our error for one of SentencePiece's."""
    if "sentences_.empty()" in message:
        return DataError("the tokenizer was given no text to learn from")
    too_low = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if too_low:
        smallest = int(too_low[1])
        return VocabularyError(
            f"tokenizer.vocab_size={vocab_size} is too small for the characters and bytes of the "
            f"data; the smallest that fits is {smallest}: --set tokenizer.vocab_size={smallest}",
            smallest,
        )
    return DataError(f"SentencePiece cannot learn from these data: {' '.join(message.split())}")
