"""Beam search, batched over sentences and hypotheses.

All unfinished sentences have the same number of rows: one at the first step, then `beam`. The rows
of a sentence are adjacent, so that they can share its memory. A finished hypothesis leaves the rows
at once, and a finished sentence leaves the batch.

Axes: `B` unfinished sentences, `R` rows of a sentence, `K` beam, `N` = `B` times `R` rows, `C`
candidates of a sentence, `P` positions (tokens so far), `A` requested hypotheses (`n_best`).
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from crosshead.decoding.candidates import (
    Hypothesis,
    NextTokens,
    Specials,
    best_first,
    check_lengths,
    first_tokens,
    length_penalty,
    make_hypothesis,
    not_finite,
    top_values,
)
from crosshead.decoding.protocol import Decodable, Sources, State

Stop = Literal["full", "exact"]
"""The rule that ends the search of a sentence before its maximum length: see `beam_search`."""


@dataclass(frozen=True)
class Candidates:
    """The best continuations of each sentence, best first; -inf if there is none.

    Attributes:
        log_probs: Log-probability of the whole continuation.
        token_log_probs: Log-probability of its last token.
        tokens: Its last token.
        rows: The row, of all N, that it continues.
    """

    log_probs: Float[Tensor, "B C"]
    token_log_probs: Float[Tensor, "B C"]
    tokens: Int[Tensor, "B C"]
    rows: Int[Tensor, "B C"]


@dataclass(frozen=True)
class Beams:
    """The unfinished sentences of a search, and their unfinished hypotheses.

    Attributes:
        sentences: Number of each sentence in the batch.
        limits: Maximum length of each sentence.
        limit_penalties: Length penalty at the maximum length.
        log_probs: Log-probability of each hypothesis, best first.
        tokens: Tokens of each row so far.
        token_log_probs: Their log-probabilities.
        best: Scores of the best finished hypotheses; -inf if there is none yet.
        finished: Number of finished hypotheses of each sentence.
    """

    sentences: Int[Tensor, " B"]
    limits: Int[Tensor, " B"]
    limit_penalties: Float[Tensor, " B"]
    log_probs: Float[Tensor, "B R"]
    tokens: Int[Tensor, "N P"]
    token_log_probs: Float[Tensor, "N P"]
    best: Float[Tensor, "B A"]
    finished: Int[Tensor, " B"]


@torch.no_grad()
def beam_search(
    model: Decodable[State],
    source: Sources,
    max_lengths: Int[Tensor, " B"],
    specials: Specials,
    beam: int,
    alpha: float,
    n_best: int,
    prefix: Int[Tensor, "B P"] | None = None,
    stop: Stop = "full",
) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each sentence, best first.

    At each step the `beam` best continuations without eos stay. Continuations with eos are finished
    if they are among the `beam` best of all. The score is log-probability divided by length
    penalty. A sentence is finished in one of these cases:

    - `n_best` hypotheses have finished and no unfinished one can still beat the last of them. The
      bound is exact: log-probabilities only fall and the penalty only grows. So the best score that
      a hypothesis can reach is its present log-probability divided by the penalty of the sentence's
      maximum length. Stopping here changes no result.
    - With `stop` "full": `beam` hypotheses have finished and no unfinished one has a better score
      now than the last of the `n_best`. A beam of one is then greedy search. An unfinished
      hypothesis that would only score better later is lost.
    - The maximum length is reached. The best unfinished hypotheses then replace missing finished
      ones.

    Args:
        model: The model.
        source: The sources, which `model.start` takes.
        max_lengths: The maximum length of each output in tokens, eos counted, "B".
        specials: The special tokens.
        beam: The number of unfinished hypotheses kept for each sentence.
        alpha: The exponent of the length penalty.
        n_best: The number of hypotheses to return for each sentence, at most `beam`.
        prefix: Tokens fed before the first one that is searched for, "B P", as for `search`.
        stop: The rule that ends a sentence, as above.

    Returns:
        A list for each sentence, shorter than `n_best` only if fewer hypotheses exist.

    Raises:
        ValueError: If a maximum length is below 1, or `n_best` is larger than the beam.
        BundleError: If the model's probabilities are not finite.

    Reference:
        Wu et al. 2016, section 7, Eq. 14; Vaswani et al. 2017, section 6.1.
    """
    check_lengths(max_lengths)
    if not 1 <= n_best <= beam:
        raise ValueError(f"expected 1 to {beam} (the beam) hypotheses, found n_best = {n_best}")
    results: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    if not results:
        return results
    next_tokens = NextTokens(model, specials)
    state = model.start(source)

    def best(log_probs: Float[Tensor, "N V"], rows: slice) -> tuple[Tensor, Tensor]:
        # At most one continuation of a row ends in eos, so `beam` of these do not.
        return top_values(log_probs, beam + 1)

    beams = _first_beams(max_lengths.to(source.device), alpha, n_best)
    last = first_tokens(source, specials, prefix)
    while True:
        hidden, state = model.step(state, last)
        candidates = _candidates(*next_tokens.choose(hidden, best), beams.log_probs, beam)
        ended = (candidates.tokens == specials.eos) & (candidates.log_probs > -math.inf)
        ended[:, beam:] = False
        _collect(results, beams, candidates, ended, specials, alpha)
        beams, rows = _advance(beams, candidates, ended, specials.eos, beam, alpha)
        done = _done(beams, beam, alpha, stop)
        if done.any():
            _fill_up(results, beams, done, n_best, specials, alpha)
            beams, rows = _drop(beams, rows, done)
            if not len(rows):
                break
        if not _is_identity(rows, len(hidden)):
            state = state.select(rows)
        last = beams.tokens[:, -1:]
    if not all(results):
        raise not_finite()
    return [best_first(found)[:n_best] for found in results]


def _first_beams(limits: Int[Tensor, " B"], alpha: float, n_best: int) -> Beams:
    """Return one row per sentence, before the first token."""
    count, device = len(limits), limits.device
    penalties = [length_penalty(limit, alpha) for limit in limits.tolist()]
    return Beams(
        sentences=torch.arange(count, device=device),
        limits=limits,
        limit_penalties=torch.tensor(penalties, device=device),
        log_probs=torch.zeros(count, 1, device=device),
        tokens=torch.empty(count, 0, dtype=torch.long, device=device),
        token_log_probs=torch.empty(count, 0, device=device),
        best=torch.full((count, n_best), -math.inf, device=device),
        finished=torch.zeros(count, dtype=torch.long, device=device),
    )


def _candidates(
    values: Float[Tensor, "N W"],
    tokens: Int[Tensor, "N W"],
    so_far: Float[Tensor, "B R"],
    beam: int,
) -> Candidates:
    """Return the 2 `beam` best continuations of each sentence, out of the `W` best of each row.

    At most one continuation of a row ends in eos. So `beam` + 1 continuations of each row, and 2
    `beam` of each sentence, include `beam` that do not end.
    """
    count, rows = so_far.shape
    width = values.shape[1] * rows
    totals = (so_far.view(-1, 1) + values).view(count, width)
    if width < 2 * beam:  # a vocabulary smaller than the beam
        totals = torch.nn.functional.pad(totals, (0, 2 * beam - width), value=-math.inf)
    totals, places = totals.topk(2 * beam)
    places = places.clamp(max=width - 1)
    first_rows = torch.arange(count, device=places.device)[:, None] * rows
    return Candidates(
        log_probs=totals,
        token_log_probs=values.view(count, width).gather(1, places),
        tokens=tokens.view(count, width).gather(1, places),
        rows=first_rows + places // values.shape[1],
    )


def _collect(
    results: list[list[Hypothesis]],
    beams: Beams,
    candidates: Candidates,
    ended: Bool[Tensor, "B C"],
    specials: Specials,
    alpha: float,
) -> None:
    """Write the hypotheses that have just ended into `results`."""
    sentences, places = ended.nonzero(as_tuple=True)
    if not len(sentences):
        return
    rows = candidates.rows[sentences, places]
    tokens = torch.cat([beams.tokens[rows], candidates.tokens[sentences, places, None]], 1)
    steps = candidates.token_log_probs[sentences, places, None]
    token_log_probs = torch.cat([beams.token_log_probs[rows], steps], 1)
    found = zip(
        beams.sentences[sentences].tolist(), tokens.tolist(), token_log_probs.tolist(), strict=True
    )
    for sentence, row, row_log_probs in found:
        results[sentence].append(make_hypothesis(row, row_log_probs, specials, alpha))


def _advance(
    beams: Beams,
    candidates: Candidates,
    ended: Bool[Tensor, "B C"],
    eos: int,
    beam: int,
    alpha: float,
) -> tuple[Beams, Int[Tensor, " M"]]:
    """Extend and prune: return the beams one token later, and the old row of each new row."""
    unfinished = candidates.log_probs.masked_fill(candidates.tokens == eos, -math.inf)
    log_probs, places = unfinished.topk(beam)
    rows = candidates.rows.gather(1, places).flatten()
    tokens = candidates.tokens.gather(1, places).view(-1, 1)
    steps = candidates.token_log_probs.gather(1, places).view(-1, 1)
    penalty = length_penalty(beams.tokens.shape[1] + 1, alpha)
    scores = (candidates.log_probs / penalty).masked_fill(~ended, -math.inf)
    advanced = replace(
        beams,
        log_probs=log_probs,
        tokens=torch.cat([beams.tokens[rows], tokens], dim=1),
        token_log_probs=torch.cat([beams.token_log_probs[rows], steps], dim=1),
        best=torch.cat([beams.best, scores], dim=1).topk(beams.best.shape[1]).values,
        finished=beams.finished + ended.sum(1),
    )
    return advanced, rows


def _done(beams: Beams, beam: int, alpha: float, stop: Stop) -> Bool[Tensor, " B"]:
    """Return which sentences are finished. A beam without any hypothesis (-inf) is finished too."""
    length = beams.tokens.shape[1]
    worst, unfinished = beams.best[:, -1], beams.log_probs[:, 0]
    done = (beams.limits <= length) | (worst >= unfinished / beams.limit_penalties)
    if stop == "full":
        done |= (beams.finished >= beam) & (worst >= unfinished / length_penalty(length, alpha))
    return done


def _fill_up(
    results: list[list[Hypothesis]],
    beams: Beams,
    done: Bool[Tensor, " B"],
    n_best: int,
    specials: Specials,
    alpha: float,
) -> None:
    """Fill up the results of finished sentences with their unfinished hypotheses."""
    for place in (done & (beams.finished < n_best)).nonzero().flatten().tolist():
        found = results[int(beams.sentences[place])]
        missing = n_best - len(found)
        alive = int((beams.log_probs[place] != -math.inf).sum())
        first = place * beams.log_probs.shape[1]
        rows = slice(first, first + min(missing, alive))
        histories = zip(
            beams.tokens[rows].tolist(), beams.token_log_probs[rows].tolist(), strict=True
        )
        found.extend(make_hypothesis(*history, specials, alpha) for history in histories)


def _drop(
    beams: Beams, rows: Int[Tensor, " N"], done: Bool[Tensor, " B"]
) -> tuple[Beams, Int[Tensor, " M"]]:
    """Drop the finished sentences."""
    keep = (~done).nonzero().flatten()
    beam = beams.log_probs.shape[1]
    keep_rows = (keep[:, None] * beam + torch.arange(beam, device=keep.device)).flatten()
    kept = Beams(
        sentences=beams.sentences[keep],
        limits=beams.limits[keep],
        limit_penalties=beams.limit_penalties[keep],
        log_probs=beams.log_probs[keep],
        tokens=beams.tokens[keep_rows],
        token_log_probs=beams.token_log_probs[keep_rows],
        best=beams.best[keep],
        finished=beams.finished[keep],
    )
    return kept, rows[keep_rows]


def _is_identity(rows: Int[Tensor, " M"], count: int) -> bool:
    """Return whether `rows` keeps all `count` rows in place."""
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
