"""What every search shares: special tokens, hypotheses, and the way from logits to candidates.

A row of logits is thousands wide and a search wants a handful of them: `LogProbs` normalises into
memory that is kept from step to step, and `top_values` looks for the largest in two stages, so that
no sort ever sees the whole row.

Axes: `B` sentences, `N` rows that are being decoded, `V` vocabulary, `C` candidates of a row.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.errors import BundleError

CHUNK = 64  # values in a block of the two-stage top-k


@dataclass(frozen=True)
class Specials:
    """The ids that search treats in their own way.

    `start` is fed before the first token and `eos` ends a hypothesis. `forbidden` ids (padding,
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


class LogProbs:
    """Turns logits into log-probabilities, in memory that is kept from one step to the next.

    Fresh memory of this size costs more than the softmax that fills it (every step asks the system
    for new pages), so each call overwrites the result of the one before.
    """

    def __init__(self, specials: Specials, device: torch.device) -> None:
        self.forbidden = torch.tensor(specials.forbidden, dtype=torch.long, device=device)
        self.memory = torch.empty(0, device=device)

    def __call__(self, logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        """The model's whole distribution, but minus infinity at the forbidden ids.

        What the forbidden ids have is not shared out among the others. Half precision is raised to
        float32 first. Valid until the next call.
        """
        dtype = torch.promote_types(logits.dtype, torch.float32)
        if self.memory.dtype != dtype or self.memory.numel() < logits.numel():
            self.memory = torch.empty(logits.numel(), dtype=dtype, device=logits.device)
        log_probs = self.memory[: logits.numel()].view(logits.shape)
        torch.log_softmax(logits.to(dtype), dim=-1, out=log_probs)
        return log_probs.index_fill_(1, self.forbidden, -math.inf)


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
