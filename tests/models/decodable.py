"""What every model must do to be searched: the same tests for all architectures.

A test module derives a class from `DecodableTests` and gives it a fixture `model`. Models for it
come from `for_decoding`, and have vocabularies of `VOCABULARY` pieces. Axes: `B` sentences,
`N` rows, `T` tokens.
"""

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from crosshead.decoding.beam import RunningBatch, beam_search
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.decoding.settings import BeamRules
from crosshead.models.base import ModelConfig, SequenceModel
from crosshead.vocabulary import BOS, EOS, PAD, UNK
from tests.models.small_transformers import VOCABULARY, padded, shifted, tokens
from tests.parameters import mostly_slow

SOURCES = [tokens(n, seed=n) for n in (4, 7, 2)]

SELECTIONS = st.lists(
    st.one_of(
        st.integers(1, 4).map(lambda beam: ("expand", [beam])),
        st.lists(st.integers(0, 10**6), min_size=1, max_size=6).map(lambda rows: ("rows", rows)),
        st.lists(st.booleans(), min_size=12, max_size=12).map(lambda keep: ("drop", keep)),
    ),
    min_size=1,
    max_size=4,
)


def for_decoding(model: SequenceModel) -> SequenceModel:
    """The model in float64, without gradients, its constants randomised so that each matters."""
    model = model.double().eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def specials(config: ModelConfig, end: int = EOS) -> Specials:
    return Specials(config.start_token, end, (PAD, BOS, UNK))


def next_logits(model: SequenceModel, state: Any, fed: Tensor) -> tuple[Tensor, Any]:
    """What `step` and `logits` say of the token after those that are fed, and the state then."""
    features, state = model.step(state, fed)
    return model.logits(features), state


def uncached(model: SequenceModel, rows: list[tuple[int, Tensor]]) -> Tensor:
    """The last logits of each row (a sentence's number and what was written), all from scratch."""
    sources = padded(SOURCES)[[sentence for sentence, _ in rows]]
    return model(sources, torch.stack([prefix for _, prefix in rows]))[:, -1]


def finished_hypotheses(model: SequenceModel, source: Tensor) -> list[tuple[float, list[int]]]:
    """Every output of two tokens at most that ends, its log-probability first, best first."""
    pieces = range(4, VOCABULARY)
    start = model.config.start_token
    targets = torch.tensor([[start, first] for first in pieces])
    log_probs = model(source.expand(len(targets), -1), targets).log_softmax(-1)
    found = [(float(log_probs[0, 0, EOS]), [])]
    for row, first in enumerate(pieces):
        found.append((float(log_probs[row, 0, first] + log_probs[row, 1, EOS]), [first]))
    return sorted(found, reverse=True)


class DecodableTests:
    """A cached step is the uncached forward, whatever rows are selected, and search follows it."""

    def test_a_step_is_the_forward_at_every_position(self, model: SequenceModel) -> None:
        source = padded([tokens(6), tokens(2, seed=1)])
        target = shifted(model.config, tokens(2, 40, seed=2))
        expected = model(source, target)
        state = model.start(source)
        for t in range(40):
            logits, state = next_logits(model, state, target[:, t : t + 1])
            torch.testing.assert_close(logits, expected[:, t])

    @pytest.mark.parametrize("lengths", [(1, 4, 1), (2, 3, 4)])
    def test_several_tokens_at_once_count_as_one_by_one(
        self, model: SequenceModel, lengths: tuple[int, ...]
    ) -> None:
        source, target = tokens(2, 5), tokens(2, sum(lengths), seed=1)
        expected = model(source, target)
        state, end = model.start(source), 0
        for length in lengths:
            logits, state = next_logits(model, state, target[:, end : end + length])
            end += length
            torch.testing.assert_close(logits, expected[:, end - 1])

    @settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(moves=SELECTIONS)
    def test_selected_rows_go_on_as_if_they_had_been_alone(
        self, model: SequenceModel, moves: list[tuple[str, list[int]]]
    ) -> None:
        """Rows repeated, reordered, dropped, in equal and in unequal numbers a sentence."""
        state = model.start(padded(SOURCES))
        rows = [(sentence, torch.empty(0, dtype=torch.long)) for sentence in range(3)]
        for number, (kind, numbers) in enumerate([*moves, ("end", [])]):
            fed = tokens(len(rows), 1 + number % 2, seed=number)
            logits, state = next_logits(model, state, fed)
            rows = [
                (s, torch.cat((prefix, new))) for (s, prefix), new in zip(rows, fed, strict=True)
            ]
            torch.testing.assert_close(logits, uncached(model, rows))
            if kind == "end":
                break
            if kind == "expand":
                chosen = [row for row in range(len(rows)) for _ in range(numbers[0])]
            elif kind == "rows":
                chosen = [number % len(rows) for number in numbers]
            else:
                chosen = [row for row in range(len(rows)) if numbers[row % 12]] or [0]
            chosen = chosen[:12]
            rows = [rows[row] for row in chosen]
            state = state.select(torch.tensor(chosen))

    def test_a_selected_state_leaves_the_first_as_it_was(self, model: SequenceModel) -> None:
        source, target = tokens(2, 5), tokens(2, 4, seed=1)
        expected = model(source, target)
        _, state = model.step(model.start(source), target[:, :3])
        other = state.select(torch.tensor([1, 0]))
        model.step(other, tokens(2, 1, seed=9))
        logits, _ = next_logits(model, state, target[:, 3:])
        torch.testing.assert_close(logits, expected[:, 3])

    def test_a_state_keeps_at_least_one_row(self, model: SequenceModel) -> None:
        with pytest.raises(ValueError, match="at least one row"):
            model.start(padded(SOURCES)).select(torch.empty(0, dtype=torch.long))

    def test_padding_changes_nothing(self, model: SequenceModel) -> None:
        """Each of three sentences of unequal lengths gets the same logits alone and in a batch."""
        sources = [tokens(n, seed=n) for n in (3, 7, 1)]
        targets = [tokens(n, seed=10 + n) for n in (5, 2, 4)]
        together = model(padded(sources), padded(targets))
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            alone = model(source[None], target[None])[0]
            torch.testing.assert_close(together[row, : len(target)], alone)

    def test_a_beam_of_one_is_greedy(self, model: SequenceModel) -> None:
        source, limits = padded(SOURCES), torch.tensor([6, 9, 4])
        first, _ = next_logits(model, model.start(source), torch.full((3, 1), BOS))
        end = 4 + int(first[0, 4:].argmin())  # so that not all end at once
        marks = specials(model.config, end)
        greedy = greedy_search(model, source, limits, marks, 0.6)
        beam = beam_search(model, source, limits, marks, 1, 0.6, 1)
        assert [h.tokens for [h] in beam] == [h.tokens for [h] in greedy]
        assert any(len(h.tokens) > 2 for [h] in greedy)

    def test_a_wide_beam_finds_the_best_of_all(self, model: SequenceModel) -> None:
        """Two tokens at most, and a beam that holds whatever they can be."""
        limits, beam = torch.full((3,), 2), VOCABULARY**2
        found = beam_search(model, padded(SOURCES), limits, specials(model.config), beam, 0.0, 5)
        for hypotheses, source in zip(found, SOURCES, strict=True):
            best = finished_hypotheses(model, source)[:5]
            assert [h.tokens for h in hypotheses] == [expected for _, expected in best]
            log_probs = torch.tensor([h.log_prob for h in hypotheses])
            torch.testing.assert_close(log_probs, torch.tensor([log_prob for log_prob, _ in best]))


class JoiningTests:
    """Rows that join others in mid-flight go on as if they had been alone."""

    @pytest.mark.parametrize("seed", mostly_slow(range(4), [0]))
    def test_joined_rows_go_on_as_if_they_had_been_alone(
        self, model: SequenceModel, seed: int
    ) -> None:
        """Rows with sources of other lengths join, are repeated and dropped, in any order."""
        choose = random.Random(seed)
        state: Any = None
        rows: list[tuple[int, Tensor]] = []
        for number in range(5):
            if number % 2 == 0:
                new = [choose.randrange(len(SOURCES)) for _ in range(choose.randint(1, 2))]
                fed = tokens(len(new), choose.randint(1, 3), seed=choose.randrange(1000))
                _, joining = model.step(model.start(padded([SOURCES[each] for each in new])), fed)
                state = joining if state is None else state.join(joining)
                rows += list(zip(new, fed, strict=True))
            fed = tokens(len(rows), 1 + number % 2, seed=number)
            logits, state = next_logits(model, state, fed)
            rows = [(s, torch.cat((row, more))) for (s, row), more in zip(rows, fed, strict=True)]
            expected = [uncached(model, [row])[0] for row in rows]
            torch.testing.assert_close(logits, torch.stack(expected))
            chosen = [choose.randrange(len(rows)) for _ in range(choose.randint(1, len(rows)))]
            rows, state = [rows[row] for row in chosen], state.select(torch.tensor(chosen))
        assert state.nbytes > 0


def check_arrivals(model: SequenceModel, beam: int = 3, count: int = 10) -> None:
    """Check that random arrivals and withdrawals change no result: each is that of one alone."""
    first, _ = next_logits(model, model.start(padded(SOURCES)), torch.full((3, 1), BOS))
    marks = specials(model.config, 4 + int(first[0, 4:].argmin()))
    sources = [tokens(1 + n % 7, seed=n) for n in range(count)]
    limits = [2 + 5 * n % 11 for n in range(count)]
    rules = BeamRules(beam, 0.6, min_length=2)
    choose, batch, found = random.Random(beam), RunningBatch(model, marks, rules), {}
    waiting, withdrawn = list(range(count)), {3, 5}
    while waiting or len(batch):
        new = [waiting.pop(0) for _ in range(min(len(waiting), choose.randint(0, 3)))]
        if new:
            longest = torch.tensor([limits[each] for each in new])
            wanted = [1 + each % beam for each in new]
            start = torch.full((len(new), 1), marks.start)
            stepped = model.step(model.start(padded([sources[n] for n in new])), start)
            found.update(batch.add(stepped, longest, new, wanted))
        if len(batch):
            found.update(batch.take(model.step(batch.state, batch.last)))
        batch.drop([each for each in withdrawn if each not in found])
    assert set(range(count)) - set(found) <= withdrawn
    for number, hypotheses in found.items():
        given = model, sources[number][None], torch.tensor([limits[number]]), marks
        alone = beam_search(*given, beam, 0.6, 1 + number % beam, min_length=2)[0]
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for mine, other in zip(hypotheses, alone, strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-9)
