"""Common parts of all searches: special tokens, hypotheses, and candidates from logits.

A row of logits has thousands of entries, but a search needs only a few of them. `NextTokens`
computes a few rows at a time. `top_values` finds the largest values in two stages, so that no sort
ever covers the whole row.

Axes: `B` sentences, `N` rows that are being decoded, `D` width of the model, `V` vocabulary, `C`
candidates of a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.decoding.protocol import Decodable
from crosshead.errors import BundleError

CHUNK = 64  # values in a chunk of the two-stage top-k
BLOCK = 128  # rows whose logits are held at a time on a CPU

NOTHING = -1
"""The id of no token."""

Chooser = Callable[[Tensor, slice], tuple[Tensor, Tensor]]
"""Log-probabilities `N V` of some rows, and which of all rows these are, to the log-probabilities
`N C` and ids `N C` of the tokens it picks."""


@dataclass(frozen=True)
class Specials:
    """The ids that search treats in their own way.

    `start` is fed before the first token and `eos` ends a hypothesis; with `NOTHING` for it, only
    its length does. `forbidden` ids (padding,
    unknown, line breaks, ...) are never produced; their probability is not given to the others.
    Raises `ValueError` where `eos` is forbidden: nothing could ever finish.
    """

    start: int
    eos: int
    forbidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.eos in self.forbidden:
            raise ValueError(f"eos (id {self.eos}) stands among the forbidden ids {self.forbidden}")


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search.

    `tokens` has neither start nor eos. `token_log_probs` (natural logarithms, of the model's whole
    distribution at temperature 1) has one entry for each token and, where `finished`, one for eos;
    `log_prob` is their sum and `score` is `log_prob` over the length penalty. `finished` is false
    where the length limit cut the hypothesis off.
    """

    tokens: list[int]
    token_log_probs: list[float]
    log_prob: float
    score: float
    finished: bool


def length_penalty(length: int, alpha: float) -> float:
    """The divisor of a log-probability, ((5 + |Y|) / 6)^alpha (Wu et al. 2016, Eq. 14).

    |Y| counts every token whose probability was taken: eos too, the start token not.
    """
    return float(((5 + length) / 6) ** alpha)


def first_tokens(
    source: Int[Tensor, "B S"], specials: Specials, prefix: Int[Tensor, "B P"] | None
) -> Int[Tensor, "B P"]:
    """Return the tokens that are fed before the search: the prefix, or else the start token."""
    if prefix is not None:
        return prefix
    return torch.full((len(source), 1), specials.start, device=source.device)


def make_hypothesis(
    tokens: list[int], token_log_probs: list[float], specials: Specials, alpha: float
) -> Hypothesis:
    """The hypothesis that a row's history spells; what stands after its first eos is left out.

    Raises `BundleError` where a log-probability is not a finite number.
    """
    finished = specials.eos in tokens
    length = tokens.index(specials.eos) if finished else len(tokens)
    token_log_probs = token_log_probs[: length + finished]
    log_prob = math.fsum(token_log_probs)
    if not math.isfinite(log_prob):
        raise not_finite()
    score = log_prob / length_penalty(len(token_log_probs), alpha)
    return Hypothesis(tokens[:length], token_log_probs, log_prob, score, finished)


def best_first(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sorted by score, the finished before those that the length limit cut off."""
    return sorted(hypotheses, key=lambda h: (h.finished, h.score), reverse=True)


def not_finite() -> BundleError:
    """The error for a model whose probabilities leave nothing to choose from."""
    return BundleError(
        "the model's probabilities are not finite numbers: its weights are damaged or its training "
        "diverged; train again or take an earlier checkpoint"
    )


def check_lengths(max_lengths: Int[Tensor, " B"]) -> None:
    """Raise `ValueError` unless every sentence has room for one token (its eos) or more."""
    if (max_lengths < 1).any():
        raise ValueError(f"a maximum length below 1: {max_lengths.tolist()}")


class NextTokens:
    """Chooses the tokens that follow, from what a model's last layer says of some rows.

    On a CPU a block of rows is projected, normalised and searched before the next: a block stays in
    the processor's cache, where all logits at once would be written to fresh memory, page by page,
    and read again three times.
    """

    def __init__(self, model: Decodable[Any], specials: Specials) -> None:
        self._logits = model.logits
        self._forbidden = torch.tensor(specials.forbidden, dtype=torch.long)
        self._memory = torch.empty(0)

    def choose(
        self, features: Float[Tensor, "N D"], chooser: Chooser
    ) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
        """Return log-probabilities and ids of the `C` tokens a row that `chooser` picks."""
        count = len(features)
        size = BLOCK if features.device.type == "cpu" else count
        found = [
            chooser(self._log_probs(features[first : first + size]), slice(first, first + size))
            for first in range(0, count, size)
        ]
        values, tokens = zip(*found, strict=True)
        return torch.cat(values), torch.cat(tokens)

    def _log_probs(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """The model's whole distribution, but minus infinity at the forbidden ids.

        What the forbidden ids have is not shared out among the others. Half precision is raised to
        float32 first. Valid until the next call, which writes to the same memory.
        """
        logits = self._logits(features)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self._memory.numel() < logits.numel() or self._memory.dtype != logits.dtype:
            self._memory = torch.empty_like(logits).flatten()
            self._forbidden = self._forbidden.to(logits.device)
        log_probs = self._memory[: logits.numel()].view(logits.shape)
        torch.log_softmax(logits, dim=-1, out=log_probs)
        return log_probs.index_fill_(1, self._forbidden, -math.inf)


def top_values(
    values: Float[Tensor, "N V"], count: int
) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
    """The `min(count, V)` largest values of each row, largest first, and their columns.

    Equal to `torch.topk` up to the choice among equal values. The row is cut into chunks; the
    `count` largest values lie in the `count` chunks with the largest maxima (and in the remainder
    that fills no chunk), so only these are sorted.
    """
    rows, width = values.shape
    chunks = width // CHUNK
    if 2 * count >= chunks:
        return values.topk(min(count, width))
    whole = chunks * CHUNK
    maxima = values[:, :whole].unflatten(1, (chunks, CHUNK)).amax(-1)
    best_chunks = maxima.topk(count, sorted=False).indices
    within = torch.arange(CHUNK, device=values.device)
    columns = (best_chunks[:, :, None] * CHUNK + within).flatten(1)
    if whole < width:
        remainder = torch.arange(whole, width, device=values.device)
        columns = torch.cat([columns, remainder.expand(rows, -1)], dim=1)
    top, places = values.gather(1, columns).topk(count)
    return top, columns.gather(1, places)
