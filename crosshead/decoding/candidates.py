"""Common parts of all searches: special tokens, hypotheses, and candidates from logits.

A row of logits has thousands of entries, but search needs only a few of them. `NextTokens`
computes a few rows at a time. `top_values` finds the largest values in two stages, so that no sort
ever covers the whole row.

Axes: `B` sentences, `N` rows that are being decoded, `D` width of the model, `V` vocabulary, `C`
candidates of a row, `P` tokens of a row so far, `M` pieces of marks.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from crosshead.decoding.hypotheses import NOTHING, Hypothesis, Specials
from crosshead.decoding.markup import admitted
from crosshead.decoding.protocol import Decodable, Sources
from crosshead.decoding.settings import OFFSET, length_penalty
from crosshead.decoding.utf8 import continued, never_first, states, whole
from crosshead.errors import BundleError

CHUNK = 64
"""The number of values in a chunk of the two-stage top-k."""
FEW_VALUES = 32_768
"""The number of values up to which the top-k in one stage is the faster one."""
BLOCK = 128
"""The number of rows whose logits are in memory at a time on a CPU."""

Chooser = Callable[[Tensor, slice], tuple[Tensor, Tensor]]
"""A function of log-probabilities `N V` of some rows, and the slice of these rows among all rows.
It returns the log-probabilities `N C` and ids `N C` of the tokens that it picks."""


def first_tokens(
    source: Sources, specials: Specials, prefix: Int[Tensor, "B P"] | None
) -> Int[Tensor, "B P"]:
    """Return the tokens that are fed before the search."""
    if prefix is not None:
        return prefix
    return torch.full((len(source), 1), specials.start, device=source.device)


def make_hypothesis(
    tokens: list[int],
    token_log_probs: list[float],
    specials: Specials,
    alpha: float,
    offset: float = OFFSET,
) -> Hypothesis:
    """Return the hypothesis of a row; tokens after its first eos are left out.

    So are the first bytes of a character that the length limit has cut off.
    """
    finished = specials.eos in tokens
    if finished or not specials.high_bytes:
        length = tokens.index(specials.eos) if finished else len(tokens)
    else:
        length = whole(tokens, specials.high_bytes)
    token_log_probs = token_log_probs[: length + finished]
    log_prob = math.fsum(token_log_probs)
    if not math.isfinite(log_prob):
        raise not_finite()
    score = log_prob / length_penalty(max(1, len(token_log_probs)), alpha, offset)
    return Hypothesis(tokens[:length], token_log_probs, log_prob, score, finished)


def best_first(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sort hypotheses by score, finished ones before the ones that were cut off."""
    return sorted(hypotheses, key=lambda h: (h.finished, h.score), reverse=True)


def not_finite() -> BundleError:
    """Return the error for a model whose probabilities are not finite."""
    return BundleError(
        "the model's probabilities are not finite numbers: its weights are damaged or its training "
        "diverged; train again or take an earlier checkpoint"
    )


def check_lengths(max_lengths: Int[Tensor, " B"]) -> None:
    """Check that every maximum length leaves room for one token, eos."""
    if (max_lengths < 1).any():
        raise ValueError(f"expected maximum lengths of 1 or more, found {max_lengths.tolist()}")


class NextTokens:
    """The choice of next tokens from the last hidden states of all rows.

    On a CPU, a block of rows is projected, normalised and searched before the next one. A block
    stays in the processor's cache. All logits at once would be written to fresh memory, page by
    page, and read again three times.
    """

    def __init__(self, model: Decodable[Any], specials: Specials, min_length: int = 0) -> None:
        self._logits = model.logits
        self._min_length = 0 if specials.eos == NOTHING else min_length
        first = never_first(specials.high_bytes) if specials.high_bytes else []
        forbidden = [*specials.forbidden, *specials.marks, *first]
        self._forbidden = torch.tensor(forbidden, dtype=torch.long)
        self.specials, self._high = specials, torch.tensor(specials.high_bytes, dtype=torch.long)
        self._marks = torch.tensor(specials.marks, dtype=torch.long)
        self._memory = torch.empty(0)

    def choose(
        self,
        hidden: Float[Tensor, "N D"],
        chooser: Chooser,
        tokens: Int[Tensor, "N P"] | None = None,
        owed: Bool[Tensor, "N M"] | None = None,
        lengths: Int[Tensor, " N"] | None = None,
    ) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
        """Choose tokens for every row, after its last tokens; it owes the marks of `owed`.

        By default `tokens` have no padding, so that their number is the length of every row.
        """
        count = len(hidden)
        size = BLOCK if hidden.device.type == "cpu" else count
        marks = state = short = None
        if tokens is not None and owed is not None:
            marks = admitted(owed, tokens, self.specials.marks)
        if tokens is not None and self.specials.high_bytes:
            high = self._high = self._high.to(tokens.device)
            if (tokens[:, -1:, None] == high).any():  # otherwise all characters are complete
                state = states(tokens, high)
        if tokens is not None and self._min_length:
            lengths = tokens.new_full((count,), tokens.shape[1]) if lengths is None else lengths
            short = lengths < self._min_length
        if count <= size:
            return chooser(self._log_probs(hidden, marks, state, short), slice(0, count))
        found = []
        for block in (slice(first, first + size) for first in range(0, count, size)):
            guided = [None if each is None else each[block] for each in (marks, state, short)]
            found.append(chooser(self._log_probs(hidden[block], *guided), block))
        values, ids = zip(*found, strict=True)
        return torch.cat(values), torch.cat(ids)

    def _log_probs(
        self,
        hidden: Float[Tensor, "N D"],
        marks: Tensor | None,
        state: Tensor | None,
        short: Tensor | None,
    ) -> Float[Tensor, "N V"]:
        """Return the model's log-probabilities, with minus infinity at ids that may not follow.

        The other tokens do not get their probability. Half precision is raised to float32 first.
        The result is valid until the next call, which overwrites it.
        """
        logits = self._logits(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self._memory.numel() < logits.numel() or self._memory.dtype != logits.dtype:
            self._memory = torch.empty_like(logits).flatten()
            self._forbidden = self._forbidden.to(logits.device)
        log_probs = self._memory[: logits.numel()].view(logits.shape)
        torch.log_softmax(logits, dim=-1, out=log_probs)
        if short is not None:
            log_probs[:, self.specials.eos].masked_fill_(short, -math.inf)
        guided = None if marks is None else log_probs[:, self._marks]
        rows = None if state is None else state.nonzero()
        inside = None if rows is None else log_probs[rows, self._high]
        log_probs.index_fill_(1, self._forbidden, -math.inf)
        if marks is not None and guided is not None:
            log_probs[:, self._marks] = guided.masked_fill(~marks, -math.inf)
        if rows is not None and inside is not None and state is not None:
            log_probs[rows[:, 0]] = -math.inf  # the last character is not complete
            log_probs[rows, self._high] = continued(inside, state[rows[:, 0]])
        return log_probs


def top_values(
    values: Float[Tensor, "N V"], count: int
) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"]]:
    """Return the largest values of each row.

    The result equals `torch.topk` up to the choice among equal values. The row is cut into chunks.
    The `count` largest values lie in the `count` chunks with the largest maxima, or in the
    remainder that fills no chunk. Only these are sorted.
    """
    rows, width = values.shape
    chunks = width // CHUNK
    if 2 * count >= chunks or values.numel() <= FEW_VALUES:
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
