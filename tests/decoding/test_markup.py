"""Every output has marks of its source alone, each at most once."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from crosshead.decoding.beam import RunningBatch
from crosshead.decoding.hypotheses import Hypothesis, Specials
from crosshead.decoding.markup import owed
from crosshead.decoding.search import search
from crosshead.decoding.settings import BeamRules, DecodeConfig
from crosshead.vocabulary import BOS, EOS, PAD, UNK

MARKS = tuple(range(4, 13))
"""The pieces of nine marks."""

SPECIALS = Specials(BOS, EOS, (PAD, BOS, UNK), MARKS)
SOURCES = [
    [20, 4, 21, 5, 22],
    [4, 7, 20, 8, 12, 21, 5],
    [20, 21, 22],
    [6, 20, 9, 21, 12],
    [7, 20, 4, 21, 5, 8, 12, 22],
]


def source_ids(lines: Sequence[Sequence[int]]) -> torch.Tensor:
    longest = max(map(len, lines))
    return torch.tensor([[*line, EOS, *[PAD] * (longest - len(line))] for line in lines])


@dataclass(frozen=True)
class Rows:
    """A state that knows nothing but the number of its rows."""

    count: int
    nbytes: int = 0

    def select(self, rows: torch.Tensor) -> "Rows":
        return Rows(len(rows))

    def join(self, other: "Rows") -> "Rows":
        return Rows(self.count + other.count)


class Babbler:
    """A model whose next tokens are random, so that it writes marks and ends anywhere."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)

    def start(self, source: torch.Tensor) -> Rows:
        return Rows(len(source))

    def step(self, state: Rows, tokens: torch.Tensor) -> tuple[torch.Tensor, Rows]:
        return torch.randn(state.count, 30, generator=self.generator), state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return 3 * hidden


def check(source: Sequence[int], hypotheses: Sequence[Hypothesis]) -> int:
    """Check the hypotheses of a source; return how many have ended."""
    for hypothesis in hypotheses:
        found = [each for each in hypothesis.tokens if each in MARKS]
        assert len(found) == len(set(found))
        assert set(found) <= set(source)
    return sum(hypothesis.finished for hypothesis in hypotheses)


@pytest.mark.parametrize(
    "decode",
    [DecodeConfig(beam=1), DecodeConfig(beam=4), DecodeConfig(beam=1, sample=True)],
    ids=["greedy", "beam", "sampled"],
)
def test_search_keeps_the_marks_of_each_source(decode: DecodeConfig) -> None:
    limits = torch.full((len(SOURCES),), 400)
    n_best = 1 if decode.beam == 1 and not decode.sample else 4
    with torch.inference_mode():
        found = search(Babbler(), source_ids(SOURCES), limits, SPECIALS, decode, n_best)
    assert sum(map(check, SOURCES, found)) >= len(SOURCES)


def test_sentences_that_join_keep_their_marks() -> None:
    model = Babbler()
    batch = RunningBatch(model, SPECIALS, BeamRules(3, 0.6))
    draw, found, waiting = random.Random(1), {}, [SOURCES[n % len(SOURCES)] for n in range(15)]
    number = 0
    with torch.inference_mode():
        while number < len(waiting) or len(batch):
            new = waiting[number : number + draw.randint(0, 3)]
            if new:
                ids = source_ids(new)
                stepped = model.step(model.start(ids), torch.full((len(new), 1), BOS))
                numbers = range(number, number + len(new))
                limits, marks = torch.full((len(new),), 300), owed(ids, MARKS)
                found |= batch.add(stepped, limits, numbers, [2] * len(new), marks)
                number += len(new)
            if len(batch):
                found |= batch.take(model.step(batch.state, batch.last))
    assert sum(check(waiting[each], found[each]) for each in found) >= len(waiting)


def test_a_sentence_without_marks_changes_nothing_for_one_with_marks() -> None:
    model, batch, found = Babbler(), RunningBatch(Babbler(), SPECIALS, BeamRules(3, 0.6)), {}
    with torch.inference_mode():
        for number, line in enumerate([SOURCES[1], SOURCES[2]]):
            ids = source_ids([line])
            stepped = model.step(model.start(ids), torch.full((1, 1), BOS))
            limits = torch.full((1,), 300)
            found |= batch.add(stepped, limits, [number], [3], owed(ids, MARKS))
        while len(batch):
            found |= batch.take(model.step(batch.state, batch.last))
    written = {token for each in found[0] for token in each.tokens}
    assert written & set(MARKS) and not {t for each in found[1] for t in each.tokens} & set(MARKS)


def test_other_sources_than_tokens_owe_nothing() -> None:
    assert not owed([object()] * 2, MARKS).any() and owed([object()] * 2, MARKS).shape == (2, 9)
