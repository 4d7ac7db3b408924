"""Tokenizers learned from text; where no vocabulary size is stated, it follows the text."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

from crosshead.data.parallel.pairs import Readable
from crosshead.data.text.subword_training import VocabularyError
from crosshead.data.text.tokenizers import (
    MOST_PIECES,
    Tokenizer,
    TokenizerConfig,
    train_tokenizer,
)

T = TypeVar("T")

MOST_PAIRS = 1_000_000
"""A tokenizer is learned from no more than these, spread over the text: SentencePiece holds all of
them in memory, and the frequent pieces are the same by then."""

_FEWEST_PIECES = 500
_WORDS_A_PIECE = 80
_WORDS_A_LINE = 250
"""Words of a line beyond these do not count: a line so long is left out of training."""
_TRIES = 4
"""For two vocabularies of one size: one text may be too small for what the other needs."""


def learn_tokenizers(
    config: TokenizerConfig, text: Readable
) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
    """Source and target tokenizer, learned from the text, and `config` with the size they have.

    Of a text of more than `MOST_PAIRS` pairs a sample is learned from.
    Raises `VocabularyError` where a size is stated and does not fit, or none fits both sides.
    """
    joint = config.joint
    config, (source, target) = _with_size(
        config, lambda: vocabulary_size(text, joint=joint), lambda sized: _learned(sized, text)
    )
    return config, source, target


def learn_tokenizer(
    config: TokenizerConfig, lines: Sequence[str]
) -> tuple[TokenizerConfig, Tokenizer]:
    """The tokenizer of text by itself, learned from its lines: as `learn_tokenizers` of pairs.

    The white space around a line is a part of the text, and learned from.
    """
    some = lines[:: _step(len(lines))]
    return _with_size(
        config,
        lambda: _pieces(sum(len(line.split()) for line in lines)),
        lambda sized: train_tokenizer(sized, some),
    )


def _with_size(
    config: TokenizerConfig, size_of_text: Callable[[], int], learn: Callable[[TokenizerConfig], T]
) -> tuple[TokenizerConfig, T]:
    """Learn with the stated size, or else with the possible size nearest to the text's own."""
    if config.vocab_size is not None:
        return config, learn(config)
    size = size_of_text() if config.kind in ("bpe", "unigram") else MOST_PIECES
    for attempt in range(1, _TRIES + 1):
        chosen = config.model_copy(update={"vocab_size": size})
        try:
            return chosen, learn(chosen)
        except VocabularyError as error:
            if attempt == _TRIES:
                raise
            # Where the characters alone take more than there is, as in Chinese, the pieces that
            # are learned come on top.
            size = error.fits if error.fits < size else error.fits + size
    raise AssertionError("the last attempt returns or raises")


def vocabulary_size(text: Readable, *, joint: bool) -> int:
    """Pieces for the words of a vocabulary's text: of both sides, or of one on the average."""
    words = sum(
        min(len(line.split()), _WORDS_A_LINE)
        for sides in text.chunks()
        for side in sides
        for line in side
    )
    return _pieces(words if joint else words / 2)


def _pieces(words: float) -> int:
    """Return the vocabulary size for this number of words, within bounds."""
    return int(min(max(round(words / _WORDS_A_PIECE, -2), _FEWEST_PIECES), MOST_PIECES))


def _learned(config: TokenizerConfig, text: Readable) -> tuple[Tokenizer, Tokenizer]:
    if config.joint:
        joint = train_tokenizer(config, chain(_sample(text, 0), _sample(text, 1)))
        return joint, joint
    learned: list[Tokenizer] = []
    errors: list[VocabularyError] = []
    for side in (0, 1):
        try:
            learned.append(train_tokenizer(config, _sample(text, side)))
        except VocabularyError as error:
            errors.append(error)
    if errors:  # the size that fits one side only would be refused for the other
        raise min(errors, key=lambda error: error.fits)
    return learned[0], learned[1]


def _sample(text: Readable, side: int) -> Iterator[str]:
    """The lines of a side that are learned from, at equal distances where not all are."""
    lines = chain.from_iterable(sides[side] for sides in text.chunks())
    return (line.strip() for line in islice(lines, 0, None, _step(len(text))))


def _step(lines: int) -> int:
    """Return n such that learning reads every n-th line."""
    return max(1, -(-lines // MOST_PAIRS))
