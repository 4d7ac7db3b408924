"""A model small enough to enumerate: logits read from a table by sentence, position and history.

The history is the sum of the tokens fed so far, which only the state knows, so a search that mixes
up its rows reads the wrong logits. `Toy` is a `Decodable`; beside it stand the plainest possible
searches to compare with: one sentence, Python lists, every hypothesis by itself.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

EOS, START, PAD = 0, 1, 2

Scored = tuple[float, list[int]]  # score and tokens, eos included where the hypothesis finished


@dataclass(frozen=True)
class ToyState:
    sentences: Int[Tensor, " N"]
    sums: Int[Tensor, " N"]
    position: int

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        return type(self)(self.sentences[rows], self.sums[rows], self.position)


@dataclass
class Toy:
    """`table[i]` belongs to the sentence whose source begins with token i.

    Its axes after the position are the sum of the tokens fed so far, modulo V, and the next token.
    `fed` records the sentences of the rows of every step, in order.
    """

    table: Float[Tensor, "sentences positions V V"]
    fed: list[list[int]] = field(default_factory=list)

    def start(self, source: Int[Tensor, "B S"]) -> ToyState:
        return ToyState(source[:, 0], torch.zeros(len(source), dtype=torch.long), 0)

    def step(
        self, state: ToyState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N V"], ToyState]:
        position = state.position + tokens.shape[1] - 1
        sums = (state.sums + tokens.sum(1)) % self.table.shape[-1]
        self.fed.append(state.sentences.tolist())
        logits = self.table[state.sentences, position, sums]
        return logits, ToyState(state.sentences, sums, position + 1)

    def logits(self, features: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        return features


def random_toy(
    seed: int, sentences: int = 4, positions: int = 6, vocabulary: int = 6, spread: float = 2.0
) -> Toy:
    """A toy of Gaussian logits; a larger `spread` makes it surer of itself."""
    generator = torch.Generator().manual_seed(seed)
    shape = (sentences, positions, vocabulary, vocabulary)
    return Toy(spread * torch.randn(shape, generator=generator))


def sources(count: int) -> Int[Tensor, "B 1"]:
    """The sources of sentences 0 to `count` - 1."""
    return torch.arange(count)[:, None]


def log_probs_after(toy: Toy, sentence: int, tokens: list[int]) -> list[float]:
    """The log-probability of each token after `tokens`."""
    history = (START + sum(tokens)) % toy.table.shape[-1]
    return toy.table[sentence, len(tokens), history].log_softmax(-1).tolist()


def penalised(log_prob: float, length: int, alpha: float, offset: float = 5.0) -> float:
    return log_prob / ((offset + length) / (offset + 1)) ** alpha


def every_hypothesis(
    toy: Toy, sentence: int, limit: int, alpha: float, forbidden: tuple[int, ...]
) -> tuple[list[Scored], list[Scored]]:
    """All finished hypotheses of at most `limit` tokens and all unfinished of that length."""
    finished: list[Scored] = []
    unfinished: list[Scored] = []
    open_ones: list[Scored] = [(0.0, [])]
    for length in range(1, limit + 1):
        longer: list[Scored] = []
        for log_prob, tokens in open_ones:
            for token, step in enumerate(log_probs_after(toy, sentence, tokens)):
                if token == EOS:
                    score = penalised(log_prob + step, length, alpha)
                    finished.append((score, [*tokens, token]))
                elif token not in forbidden:
                    longer.append((log_prob + step, [*tokens, token]))
        open_ones = longer
    unfinished = [(penalised(log_prob, limit, alpha), tokens) for log_prob, tokens in open_ones]
    return sorted(finished, reverse=True), sorted(unfinished, reverse=True)


def plain_beam(
    toy: Toy,
    sentence: int,
    limit: int,
    beam: int,
    alpha: float,
    n_best: int,
    forbidden: tuple[int, ...],
    stop: str,
    offset: float = 5.0,
    min_length: int = 0,
) -> list[Scored]:
    """Beam search without any early stop but, except with stop "exact", that of a full beam.

    That is: `beam` have finished, and no unfinished one scores better as it stands than the last of
    the `n_best` ("full") or of the `beam` best ("last"). With "count" and a penalty the scores do
    not matter.
    """
    finished: list[Scored] = []
    alive: list[Scored] = [(0.0, [])]
    for length in range(1, limit + 1):
        candidates = [
            (log_prob + step, [*tokens, token])
            for log_prob, tokens in alive
            for token, step in enumerate(log_probs_after(toy, sentence, tokens))
            if token not in forbidden and step > -math.inf
            if token != EOS or len(tokens) >= min_length
        ]
        candidates.sort(reverse=True)
        for log_prob, tokens in candidates[:beam]:
            if tokens[-1] == EOS:
                finished.append((penalised(log_prob, length, alpha, offset), tokens))
        alive = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam]
        finished.sort(reverse=True)
        unfinished = penalised(alive[0][0], length, alpha, offset) if alive else -math.inf
        last = {"full": n_best, "last": beam, "count": n_best}.get(stop)
        if len(finished) >= beam and (
            (stop == "count" and alpha) or (last and finished[last - 1][0] >= unfinished)
        ):
            break
    cut = [(penalised(log_prob, len(tokens), alpha, offset), tokens) for log_prob, tokens in alive]
    return (finished + (cut if len(finished) < n_best else []))[:n_best]
