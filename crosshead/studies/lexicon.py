"""A language made up, and its translation: a word for each word, adjectives behind their nouns.

Every adjective that stands before a noun changes places with it. Words are drawn at random, so that
nothing but the source says what comes next; what a model does not carry over from it, it guesses.
"""

from functools import partial

import torch
from torch import Generator, Tensor

from crosshead.data.batching import Batch
from crosshead.decoding.search import Specials, greedy_search
from crosshead.models.base import SequenceModel
from crosshead.studies.fitting import FIRST, updates
from crosshead.vocabulary import BOS, EOS, PAD, UNK

NOUNS = ADJECTIVES = 16
VOCABULARY = FIRST + NOUNS + ADJECTIVES

_WORD = torch.randperm(NOUNS + ADJECTIVES, generator=Generator().manual_seed(1)) + FIRST
"""The translation of each word, nouns first; a word of one language may be any in the other."""

_SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK))


def translated(source: Tensor) -> Tensor:
    """The translation of sentences `B T`, without their ends."""
    adjective = source >= FIRST + NOUNS
    before = adjective[:, :-1] & ~adjective[:, 1:]
    order = torch.arange(source.shape[1]).repeat(len(source), 1)
    order[:, :-1] += before.long()
    order[:, 1:] -= before.long()
    return _WORD[source.gather(1, order) - FIRST]


def sentences(rows: int, length: int, generator: Generator) -> Tensor:
    """Sentences `rows length` of random words."""
    return torch.randint(FIRST, VOCABULARY, (rows, length), generator=generator)


def as_text(tokens: Tensor) -> str:
    """Sentences `B T` as lines of words: `a7 a40 a3`."""
    return "".join(" ".join(f"a{word}" for word in row) + "\n" for row in tokens.tolist())


def pairs(source: Tensor) -> Batch:
    """Sentences and their translations, for teacher forcing."""
    target = translated(source)
    begin, end = (torch.full((len(source), 1), special) for special in (BOS, EOS))
    inputs = torch.cat([source, end], dim=1), torch.cat([begin, target], dim=1)
    return Batch(inputs, torch.cat([target, end], dim=1))


def random_pairs(lengths: tuple[int, int], tokens: int, generator: Generator) -> Batch:
    """A batch of about so many tokens, all of one length drawn from `lengths`, ends included."""
    length = int(torch.randint(lengths[0], lengths[1] + 1, (1,), generator=generator))
    return pairs(sentences(max(1, tokens // length), length, generator))


def learn(
    model: SequenceModel,
    lengths: tuple[int, int],
    generator: Generator,
    *,
    most: int,
    rate: float,
    tokens: int = 2048,
) -> None:
    """Train a model on so many random batches, of sentences of all `lengths`."""
    draw = partial(random_pairs, lengths, tokens)
    for _ in updates(model, draw, generator, most=most, rate=rate, warmup=max(1, most // 10)):
        pass


@torch.inference_mode()
def right(model: SequenceModel, source: Tensor) -> Tensor:
    """Return which words of greedy translations of sentences `B T` are at their correct position.

    The result is `B T` as well. A missing word counts as wrong; words past the end are ignored.
    """
    model.eval()
    rows, length = source.shape
    end = torch.full((rows, 1), EOS)
    limits = torch.full((rows,), length + 1)
    found = greedy_search(model, torch.cat([source, end], dim=1), limits, _SPECIALS, 0.0)
    written = torch.full((rows, length), PAD)
    for row, [best] in enumerate(found):
        tokens = torch.tensor(best.tokens[:length], dtype=torch.long)
        written[row, : len(tokens)] = tokens
    model.train()
    return written == translated(source)
