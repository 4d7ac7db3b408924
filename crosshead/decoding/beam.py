"""Beam search over sentences that join and leave at every step.

All unfinished sentences have the same number of rows: one at the first step, then `beam`. The rows
of a sentence are adjacent, so that they can share its memory. A finished hypothesis leaves the rows
at once, and a finished sentence leaves the batch.

Axes: `B` sentences, `P` tokens of a prefix.
"""

from collections.abc import Sequence
from typing import Any, Generic

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from crosshead.decoding.beams import Beams, advance, first_beams, join_beams, keep_sentences
from crosshead.decoding.candidates import (
    NextTokens,
    best_first,
    check_lengths,
    first_tokens,
    not_finite,
    top_values,
)
from crosshead.decoding.hypotheses import Finished, Hypothesis, Specials
from crosshead.decoding.markup import owed as marks_owed
from crosshead.decoding.protocol import Decodable, Sources, State
from crosshead.decoding.settings import OFFSET, BeamRules, Stop

__all__ = ["RunningBatch", "beam_search"]


class RunningBatch(Generic[State]):
    """A running beam search, which sentences join at any step and leave when they are done.

    The caller runs the model, and the batch chooses what is fed next. The result of a sentence does
    not depend on the others, as far as the model's logits do not. A beam of one with the rule
    "full" is greedy search.

    Args:
        model: The model. If sentences join others, its states are `JoinableState`.
        specials: The special tokens.
        rules: The settings of the search.
    """

    def __init__(self, model: Decodable[State], specials: Specials, rules: BeamRules) -> None:
        self.specials, self.rules = specials, rules
        self._next_tokens = NextTokens(model, specials, rules.min_length)
        self._beams: Beams | None = None
        self._state: Any = None
        self._results: Finished = {}
        self._wanted: dict[int, int] = {}  # hypotheses to return, by number
        self._has_marks = False  # otherwise no step looks for marks

    def __len__(self) -> int:
        return 0 if self._beams is None else len(self._beams.sentences)

    @property
    def state(self) -> State:
        """The state of the model for the rows, before the next step."""
        state: State = self._state
        return state

    @property
    def last(self) -> Int[Tensor, "N 1"]:
        """The tokens that the next step feeds to the rows, "N 1"."""
        assert self._beams is not None, "a batch without sentences has no next step"
        return self._beams.tokens[:, -1:]

    def add(
        self,
        stepped: tuple[Float[Tensor, "B D"], State],
        limits: Int[Tensor, " B"],
        numbers: Sequence[int],
        wanted: Sequence[int],
        marks: Bool[Tensor, "B M"] | None = None,
    ) -> Finished:
        """Add sentences after their first step.

        Args:
            stepped: The hidden states, "B D", and the state that `model.step` returns for the first
                tokens of the sentences, one row each.
            limits: The maximum length of each output in tokens, eos counted, "B".
            numbers: The number of each sentence, by which `take` and `drop` name it.
            wanted: The number of hypotheses to return for each sentence, at most the beam.
            marks: The marks that each sentence owes, from `crosshead.decoding.markup.owed`,
                "B M"; by default none.

        Returns:
            The hypotheses of the sentences that are done already, by number.

        Raises:
            ValueError: If a maximum length is below 1, or more hypotheses are wanted than the beam
                holds.
        """
        check_lengths(limits)
        refused = [each for each in wanted if not 1 <= each <= self.rules.beam]
        if refused:
            raise ValueError(
                f"expected 1 to {self.rules.beam} (the beam) hypotheses, found n_best = "
                f"{refused[0]}"
            )
        self._wanted.update(zip(numbers, wanted, strict=True))
        marks = marks_owed(numbers, self.specials.marks) if marks is None else marks
        self._has_marks = bool(marks.any()) or (self._has_marks and len(self) > 0)
        beams = first_beams(numbers, limits.to(stepped[0].device), wanted, marks, self.rules)
        new, state, done = self._advanced(beams, stepped)
        if new is not None and self._beams is not None:
            self._beams, self._state = join_beams(self._beams, new), self._state.join(state)
        elif new is not None:
            self._beams, self._state = new, state
        return self._taken(done)

    def take(self, stepped: tuple[Float[Tensor, "N D"], State]) -> Finished:
        """Extend every hypothesis by one token.

        Args:
            stepped: The hidden states, "N D", and the state that `model.step` returns for `state`
                and `last`.

        Returns:
            The hypotheses of the sentences that are done, best first, by number.

        Raises:
            BundleError: If the model's probabilities are not finite.
        """
        assert self._beams is not None, "a batch without sentences has no next step"
        self._beams, self._state, done = self._advanced(self._beams, stepped)
        return self._taken(done)

    def drop(self, numbers: Sequence[int]) -> None:
        """Remove sentences before they are done.

        Args:
            numbers: The numbers of the sentences.
        """
        if self._beams is None:
            return
        gone = torch.tensor(numbers, device=self._beams.sentences.device)
        kept = ~torch.isin(self._beams.sentences, gone)
        for number in numbers:
            self._results.pop(number, None)
            self._wanted.pop(number, None)
        if not kept.any():
            self._beams = self._state = None
        elif not kept.all():
            self._beams, rows = keep_sentences(self._beams, kept)
            self._state = self._state.select(rows)

    def _advanced(
        self, beams: Beams, stepped: tuple[Float[Tensor, "N D"], State]
    ) -> tuple[Beams | None, State | None, list[int]]:
        """Return beams and state one token later, and the numbers of finished sentences."""
        hidden, state = stepped
        width = beams.log_probs.shape[1]
        owed = beams.owed.repeat_interleave(width, dim=0) if self._has_marks else None
        lengths = beams.lengths.repeat_interleave(width) if self.rules.min_length else None
        values, tokens = self._next_tokens.choose(hidden, self._best, beams.tokens, owed, lengths)
        beams, rows, done = advance(beams, values, tokens, self.specials, self.rules, self._results)
        if not len(rows):
            return None, None, done
        return beams, state if _is_identity(rows, len(hidden)) else state.select(rows), done

    def _best(self, log_probs: Float[Tensor, "N V"], rows: slice) -> tuple[Tensor, Tensor]:
        # At most one continuation of a row ends in eos, so `beam` of these do not.
        return top_values(log_probs, self.rules.beam + 1)

    def _taken(self, done: Sequence[int]) -> Finished:
        """Return the hypotheses of finished sentences, and forget them."""
        found = {}
        for number in done:
            hypotheses = best_first(self._results.pop(number, []))
            found[number] = hypotheses[: self._wanted.pop(number)]
        if not all(found.values()):
            raise not_finite()
        return found


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
    offset: float = OFFSET,
    min_length: int = 0,
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
    - With `stop` "last": the same, but no unfinished one has a better score now than the last of
      the `beam` best finished ones. Hugging Face stops so by default.
    - With `stop` "count": `beam` hypotheses have finished. CTranslate2 stops so.
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
        offset: The constant k of the length penalty.
        min_length: The shortest output, in tokens without eos.

    Returns:
        A list for each sentence, shorter than `n_best` only if fewer hypotheses exist.

    Raises:
        ValueError: If a maximum length is below 1, or `n_best` is larger than the beam.
        BundleError: If the model's probabilities are not finite.

    Reference:
        Wu et al. 2016, section 7, Eq. 14; Vaswani et al. 2017, section 6.1.
    """
    count = len(source)
    if not count:
        return []
    batch = RunningBatch(model, specials, BeamRules(beam, alpha, stop, offset, min_length))
    stepped = model.step(model.start(source), first_tokens(source, specials, prefix))
    marks = marks_owed(source, specials.marks)
    found = batch.add(stepped, max_lengths, range(count), [n_best] * count, marks)
    while len(batch):
        found.update(batch.take(model.step(batch.state, batch.last)))
    return [found[number] for number in range(count)]


def _is_identity(rows: Int[Tensor, " M"], count: int) -> bool:
    """Return whether `rows` keeps all `count` rows in place."""
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
