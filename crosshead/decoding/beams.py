"""The hypotheses of beam search, and one step of it, for sentences of different lengths.

Tokens of rows end together: a row that is shorter than the longest begins with padding, which
nothing reads.

Axes: `B` unfinished sentences, `R` rows of a sentence, `K` beam, `N` = `B` times `R` rows, `C`
candidates of a sentence, `P` positions of the longest row, `M` pieces of marks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from crosshead.decoding.candidates import make_hypothesis
from crosshead.decoding.hypotheses import Finished, Specials
from crosshead.decoding.settings import BeamRules, length_penalty


@dataclass(frozen=True)
class Candidates:
    """The best continuations of each sentence, best first; -inf if there is none.

    Attributes:
        log_probs: Log-probability of the whole continuation.
        tokens: Its last token.
        places: The place of this token among the `W` best tokens of each of the N rows.
        values: The log-probabilities of these tokens.
    """

    log_probs: Float[Tensor, "B C"]
    tokens: Int[Tensor, "B C"]
    places: Int[Tensor, "B C"]
    values: Float[Tensor, "N W"]


@dataclass(frozen=True)
class Beams:
    """The unfinished sentences of a search, and their unfinished hypotheses.

    Attributes:
        sentences: Number of each sentence.
        lengths: Number of tokens so far.
        limits: Maximum length of each sentence.
        limit_penalties: Length penalty at the maximum length.
        wanted: Number of hypotheses to return for each sentence.
        log_probs: Log-probability of each hypothesis, best first.
        tokens: Tokens of each row so far, at the end of the row.
        token_log_probs: Their log-probabilities.
        best: Scores of the best finished hypotheses; -inf if there is none yet.
        finished: Number of finished hypotheses of each sentence.
        owed: The marks that each sentence owes (`crosshead.decoding.markup`).
    """

    sentences: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    limits: Int[Tensor, " B"]
    limit_penalties: Float[Tensor, " B"]
    wanted: Int[Tensor, " B"]
    log_probs: Float[Tensor, "B R"]
    tokens: Int[Tensor, "N P"]
    token_log_probs: Float[Tensor, "N P"]
    best: Float[Tensor, "B K"]
    finished: Int[Tensor, " B"]
    owed: Bool[Tensor, "B M"]


def first_beams(
    numbers: Sequence[int],
    limits: Int[Tensor, " B"],
    wanted: Sequence[int],
    owed: Bool[Tensor, "B M"],
    rules: BeamRules,
) -> Beams:
    """Return one row per sentence, before the first token."""
    count, device = len(limits), limits.device
    return Beams(
        sentences=torch.tensor(numbers, device=device),
        lengths=torch.zeros(count, dtype=torch.long, device=device),
        limits=limits,
        limit_penalties=_penalties(limits, rules),
        wanted=torch.tensor(wanted, device=device),
        log_probs=torch.zeros(count, 1, device=device),
        tokens=torch.empty(count, 0, dtype=torch.long, device=device),
        token_log_probs=torch.empty(count, 0, device=device),
        best=torch.full((count, rules.beam), -math.inf, device=device),
        finished=torch.zeros(count, dtype=torch.long, device=device),
        owed=owed.to(device),
    )


def advance(
    beams: Beams,
    values: Float[Tensor, "N W"],
    tokens: Int[Tensor, "N W"],
    specials: Specials,
    rules: BeamRules,
    results: Finished,
) -> tuple[Beams, Int[Tensor, " M"], list[int]]:
    """Take one step of beam search: extend, collect, prune, and drop finished sentences."""
    candidates = _candidates(values, tokens, beams.log_probs, rules.beam)
    beams = replace(beams, lengths=beams.lengths + 1)
    ends = candidates.tokens == specials.eos
    log_probs, best = candidates.log_probs, None
    if ends.any():
        ended = ends & (log_probs > -math.inf)
        ended[:, rules.beam :] = False
        beams = _collected(results, beams, candidates, ended, specials, rules)
        log_probs, best = log_probs.masked_fill(ends, -math.inf).topk(rules.beam)
    tokens, places = (
        (part[:, : rules.beam] if best is None else part.gather(1, best)).flatten()
        for part in (candidates.tokens, candidates.places)
    )
    tokens, token_log_probs, rows = _extended(beams, candidates, tokens, places)
    beams = replace(
        beams,
        log_probs=log_probs[:, : rules.beam],
        tokens=tokens,
        token_log_probs=token_log_probs,
    )
    done = _done(beams, rules)
    if not done.any():
        return beams, rows, []
    _fill_up(results, beams, done, specials, rules)
    numbers = beams.sentences[done].tolist()
    beams, kept = keep_sentences(beams, ~done)
    return beams, rows[kept], numbers


def keep_sentences(beams: Beams, kept: Bool[Tensor, " B"]) -> tuple[Beams, Int[Tensor, " M"]]:
    """Return the beams of some sentences, and their rows, "M"."""
    keep = kept.nonzero().flatten()
    width = beams.log_probs.shape[1]
    rows = (keep[:, None] * width + torch.arange(width, device=keep.device)).flatten()
    parts = {field.name: getattr(beams, field.name) for field in fields(beams)}
    chosen = {
        name: part[rows if name in ("tokens", "token_log_probs") else keep]
        for name, part in parts.items()
    }
    return Beams(**chosen), rows


def join_beams(first: Beams, second: Beams) -> Beams:
    """Return the sentences of two beams as one; positions that no row uses are dropped."""
    positions = int(max(part.lengths.max() for part in (first, second)))
    joined = {}
    for field in fields(first):
        parts = [getattr(part, field.name) for part in (first, second)]
        if field.name in ("tokens", "token_log_probs"):
            parts = [
                torch.nn.functional.pad(part, (positions - part.shape[1], 0)) for part in parts
            ]
        joined[field.name] = torch.cat(parts)
    return Beams(**joined)


def _penalties(lengths: Int[Tensor, " B"], rules: BeamRules) -> Float[Tensor, " B"]:
    """Return the length penalty of each sentence at these lengths."""
    penalties = [length_penalty(each, rules.alpha, rules.offset) for each in lengths.tolist()]
    return torch.tensor(penalties, device=lengths.device)


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
    totals = (so_far.reshape(-1, 1) + values).view(count, width)
    if width < 2 * beam:  # a vocabulary smaller than the beam
        totals = torch.nn.functional.pad(totals, (0, 2 * beam - width), value=-math.inf)
    totals, places = totals.topk(2 * beam)
    if width < 2 * beam:
        places = places.clamp(max=width - 1)
    places = places + torch.arange(0, count * width, width, device=places.device)[:, None]
    return Candidates(totals, tokens.take(places), places, values)


def _collected(
    results: Finished,
    beams: Beams,
    candidates: Candidates,
    ended: Bool[Tensor, "B C"],
    specials: Specials,
    rules: BeamRules,
) -> Beams:
    """Write the hypotheses that have just ended into `results`; return the beams with scores."""
    sentences = ended.nonzero()[:, 0]
    tokens, places = candidates.tokens[ended], candidates.places[ended]
    tokens, token_log_probs, _ = _extended(beams, candidates, tokens, places)
    columns = (beams.sentences[sentences], beams.lengths[sentences], tokens, token_log_probs)
    _add(results, columns, specials, rules)
    scores = candidates.log_probs / _penalties(beams.lengths, rules)[:, None]
    scores = scores.masked_fill(~ended, -math.inf)
    best = torch.cat([beams.best, scores], dim=1).topk(rules.beam).values
    return replace(beams, best=best, finished=beams.finished + ended.sum(1))


def _add(
    results: Finished,
    columns: tuple[Tensor, Tensor, Tensor, Tensor],
    specials: Specials,
    rules: BeamRules,
) -> None:
    """Add the hypotheses of rows: their sentences, lengths, tokens and log-probabilities."""
    for sentence, length, row, row_log_probs in zip(*(c.tolist() for c in columns), strict=True):
        hypothesis = make_hypothesis(
            row[-length:], row_log_probs[-length:], specials, rules.alpha, rules.offset
        )
        results.setdefault(sentence, []).append(hypothesis)


def _extended(
    beams: Beams, candidates: Candidates, tokens: Int[Tensor, " M"], places: Int[Tensor, " M"]
) -> tuple[Int[Tensor, "M P"], Float[Tensor, "M P"], Int[Tensor, " M"]]:
    """Return the tokens of continuations, their log-probabilities, and the rows they continue."""
    rows = places // candidates.values.shape[1]
    steps = candidates.values.take(places)
    return (
        torch.cat([beams.tokens[rows], tokens[:, None]], dim=1),
        torch.cat([beams.token_log_probs[rows], steps[:, None]], dim=1),
        rows,
    )


def _done(beams: Beams, rules: BeamRules) -> Bool[Tensor, " B"]:
    """Return which sentences are finished. A beam without any hypothesis (-inf) is finished too."""
    worst = beams.best.gather(1, beams.wanted[:, None] - 1)[:, 0]
    unfinished = beams.log_probs[:, 0]
    done = (beams.limits <= beams.lengths) | (worst >= unfinished / beams.limit_penalties)
    if rules.stop == "exact":
        return done
    enough = beams.finished >= rules.beam
    if rules.stop != "count" or not rules.alpha:
        scores = unfinished / _penalties(beams.lengths, rules)
        reached = beams.best[:, -1] if rules.stop == "last" else worst
        enough &= reached >= scores
    return done | enough


def _fill_up(
    results: Finished, beams: Beams, done: Bool[Tensor, " B"], specials: Specials, rules: BeamRules
) -> None:
    """Fill up the results of finished sentences with their unfinished hypotheses."""
    for place in (done & (beams.finished < beams.wanted)).nonzero().flatten().tolist():
        missing = int(beams.wanted[place] - beams.finished[place])
        alive = int((beams.log_probs[place] != -math.inf).sum())
        first = place * beams.log_probs.shape[1]
        rows = slice(first, first + min(missing, alive))
        count = rows.stop - rows.start
        columns = (
            beams.sentences[place].expand(count),
            beams.lengths[place].expand(count),
            beams.tokens[rows],
            beams.token_log_probs[rows],
        )
        _add(results, columns, specials, rules)
