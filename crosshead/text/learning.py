"""Learn tokenizers from text, with a vocabulary size that follows the text if none is given."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

from crosshead.text.parallel.pairs import Readable
from crosshead.text.tokenizers import (
    MOST_PIECES,
    Tokenizer,
    TokenizerConfig,
    VocabularyError,
    train_tokenizer,
)
from crosshead.text.visible import visible

T = TypeVar("T")

MOST_PAIRS = 1_000_000
"""The largest number of pairs that a tokenizer is learned from, evenly spaced in the text.
SentencePiece holds all of them in memory, and more pairs do not change the frequent pieces."""

_FEWEST_PIECES = 500
_PIECES_BY_ROOT = 9.6
"""The number of pieces for each square root of the number of words. A text of four times the length
has about twice as many different words."""
_WORDS_A_LINE = 250
"""The largest number of words that count in a line. Longer lines are left out of training."""
_TRIES = 4
"""The largest number of attempts with separate vocabularies of one size. One text may be too small
for the size that the other needs."""


def learn_tokenizers(
    config: TokenizerConfig, text: Readable
) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
    """Learn the tokenizers of source and target.

    If the text has more than `MOST_PAIRS` pairs, a sample is used.
    """
    joint = config.joint
    config, (source, target) = _with_size(
        config, lambda: vocabulary_size(text, joint=joint), lambda sized: _learned(sized, text)
    )
    return config, source, target


def learn_tokenizer(
    config: TokenizerConfig, lines: Sequence[str]
) -> tuple[TokenizerConfig, Tokenizer]:
    """Learn the tokenizer of monolingual text from its lines.

    Unlike in pairs, white space around a line belongs to the text and is learned from.
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
    """Learn with the configured size, or with the possible size nearest to the text's own."""
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
            # If the characters alone need more than `size`, as in Chinese, the learned pieces are
            # added to them.
            size = error.fits if error.fits < size else error.fits + size
    raise AssertionError("the last attempt returns or raises")


def vocabulary_size(text: Readable, *, joint: bool) -> int:
    """Return a vocabulary size for the number of words in the text."""
    words = sum(
        min(len(line.split()), _WORDS_A_LINE)
        for sides in text.chunks()
        for side in sides
        for line in side
    )
    return _pieces(words if joint else words / 2)


def _pieces(words: float) -> int:
    """Return the vocabulary size for this number of words, within bounds."""
    size = round(_PIECES_BY_ROOT * math.sqrt(words), -2)
    return int(min(max(size, _FEWEST_PIECES), MOST_PIECES))


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
    if errors:  # a size must fit both sides, so report the smaller one
        raise min(errors, key=lambda error: error.fits)
    return learned[0], learned[1]


def _sample(text: Readable, side: int) -> Iterator[str]:
    """Yield the lines of one side to learn from, evenly spaced if there are too many."""
    lines = chain.from_iterable(sides[side] for sides in text.chunks())
    return (visible(line).strip() for line in islice(lines, 0, None, _step(len(text))))


def _step(lines: int) -> int:
    """Return n such that learning reads every n-th line."""
    return max(1, -(-lines // MOST_PAIRS))
