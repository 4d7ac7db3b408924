"""A made-up language and its translation: word for word, but adjectives follow their nouns.

Every adjective that stands before a noun changes places with it. Words are drawn at random, so that
only the source tells the next word. A model guesses every word that it does not carry over.
"""

import torch
from torch import Generator, Tensor

from crosshead.addons.studies.fitting import FIRST
from crosshead.decoding.search import Specials, greedy_search
from crosshead.models.base import SequenceModel
from crosshead.text.batching import Batch
from crosshead.vocabulary import BOS, EOS, PAD, UNK

NOUNS = ADJECTIVES = 16
VOCABULARY = FIRST + NOUNS + ADJECTIVES

_WORD = torch.randperm(NOUNS + ADJECTIVES, generator=Generator().manual_seed(1)) + FIRST
"""The translation of each word, nouns first; any id may stand for any word."""

_SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK))


def translated(source: Tensor) -> Tensor:
    """Return the translation of sentences "B T", without end tokens."""
    adjective = source >= FIRST + NOUNS
    before = adjective[:, :-1] & ~adjective[:, 1:]
    order = torch.arange(source.shape[1]).repeat(len(source), 1)
    order[:, :-1] += before.long()
    order[:, 1:] -= before.long()
    return _WORD[source.gather(1, order) - FIRST]


def sentences(rows: int, length: int, generator: Generator) -> Tensor:
    """Return sentences of random words, "rows length"."""
    return torch.randint(FIRST, VOCABULARY, (rows, length), generator=generator)


def as_text(tokens: Tensor) -> str:
    """Return sentences "B T" as lines of words: `a7 a40 a3`."""
    return "".join(" ".join(f"a{word}" for word in row) + "\n" for row in tokens.tolist())


def pairs(source: Tensor) -> Batch:
    """Return sentences and their translations, for teacher forcing."""
    target = translated(source)
    begin, end = (torch.full((len(source), 1), special) for special in (BOS, EOS))
    inputs = torch.cat([source, end], dim=1), torch.cat([begin, target], dim=1)
    return Batch(inputs, torch.cat([target, end], dim=1))


def random_pairs(lengths: tuple[int, int], tokens: int, generator: Generator) -> Batch:
    """Return a batch of about `tokens` words, all of one length drawn from `lengths`."""
    length = int(torch.randint(lengths[0], lengths[1] + 1, (1,), generator=generator))
    return pairs(sentences(max(1, tokens // length), length, generator))


@torch.inference_mode()
def right(model: SequenceModel, source: Tensor) -> Tensor:
    """Return which words of greedy translations are at their correct position: "B T" to "B T".

    A missing word counts as wrong; words past the end are ignored.
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
