"""A cached step is the uncached forward, whatever rows are selected in between."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crosshead.attention.masks import Mask
from crosshead.errors import UserError
from crosshead.models.transformer import Transformer, TransformerState
from tests.models.small_transformers import TINY, VARIANTS, model_of, padded, shifted, tokens


def next_logits(
    model: Transformer, state: TransformerState, fed: Tensor
) -> tuple[Tensor, TransformerState]:
    """What `step` and `logits` say of the token after those that are fed, and the state then."""
    features, state = model.step(state, fed)
    return model.logits(features), state


@pytest.mark.parametrize("name", VARIANTS)
def test_a_cached_step_is_the_uncached_forward_at_every_position(name: str) -> None:
    model = model_of(VARIANTS[name])
    source = padded([tokens(6), tokens(2, seed=1)])
    target = shifted(model.config, tokens(2, 40, seed=2))
    expected = model(source, target)
    state = model.start(source)
    for t in range(40):
        logits, state = next_logits(model, state, target[:, t : t + 1])
        torch.testing.assert_close(logits, expected[:, t])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("lengths", [(1, 4, 1), (5, 1), (2, 3, 4)])
def test_several_tokens_at_once_count_as_one_by_one(name: str, lengths: tuple[int, ...]) -> None:
    model = model_of(VARIANTS[name])
    source, target = tokens(2, 5), tokens(2, sum(lengths), seed=1)
    expected = model(source, target)
    state, end = model.start(source), 0
    for length in lengths:
        logits, state = next_logits(model, state, target[:, end : end + length])
        end += length
        torch.testing.assert_close(logits, expected[:, end - 1])


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


def uncached(model: Transformer, rows: list[tuple[int, Tensor]]) -> Tensor:
    """The last logits of each row (a sentence's number and what was written), all from scratch."""
    sources = padded(SOURCES)[[sentence for sentence, _ in rows]]
    return model(sources, torch.stack([prefix for _, prefix in rows]))[:, -1]


@settings(max_examples=30, deadline=None)
@given(SELECTIONS)
def test_selected_rows_go_on_as_if_they_had_been_alone(moves: list[tuple[str, list[int]]]) -> None:
    """Rows repeated, reordered, dropped, in equal and in unequal numbers a sentence."""
    model = model_of(TINY)
    state: TransformerState = model.start(padded(SOURCES))
    rows = [(sentence, torch.empty(0, dtype=torch.long)) for sentence in range(3)]
    for number, (kind, numbers) in enumerate(moves):
        fed = tokens(len(rows), 1 + number % 2, seed=number)
        logits, state = next_logits(model, state, fed)
        rows = [(s, torch.cat((prefix, new))) for (s, prefix), new in zip(rows, fed, strict=True)]
        torch.testing.assert_close(logits, uncached(model, rows))
        if kind == "expand":
            chosen = [row for row in range(len(rows)) for _ in range(numbers[0])]
        elif kind == "rows":
            chosen = [number % len(rows) for number in numbers]
        else:
            chosen = [row for row in range(len(rows)) if numbers[row % 12]] or [0]
        chosen = chosen[:12]
        rows = [rows[row] for row in chosen]
        state = state.select(torch.tensor(chosen))
    fed = tokens(len(rows), 1, seed=99)
    logits, _ = next_logits(model, state, fed)
    rows = [(s, torch.cat((prefix, new))) for (s, prefix), new in zip(rows, fed, strict=True)]
    torch.testing.assert_close(logits, uncached(model, rows))


def test_the_memory_of_a_sentence_is_shared_by_its_rows() -> None:
    model = model_of(TINY)
    state = model.start(padded(SOURCES))
    expanded = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    reordered = expanded.select(torch.tensor([1, 1, 3, 2, 4, 4]))
    for later in (expanded, reordered):
        assert later.memory.rows_per_sentence == 2
        for part, original in zip(later.memory.layers, state.memory.layers, strict=True):
            assert part.keys is original.keys
    fewer = reordered.select(torch.tensor([0, 1, 4, 5]))
    assert fewer.memory.layers[0].keys.shape[0] == 2
    assert fewer.memory.mask.shape[0] == 2


def test_a_selected_state_leaves_the_first_as_it_was() -> None:
    model = model_of(TINY)
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    expected = model(source, target)
    _, state = model.step(model.start(source), target[:, :3])
    other = state.select(torch.tensor([1, 0]))
    model.step(other, tokens(2, 1, seed=9))
    logits, _ = next_logits(model, state, target[:, 3:])
    torch.testing.assert_close(logits, expected[:, 3])


def test_a_state_keeps_at_least_one_row() -> None:
    state = model_of(TINY).start(padded(SOURCES))
    with pytest.raises(ValueError, match="at least one row"):
        state.select(torch.empty(0, dtype=torch.long))


def test_one_token_needs_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy and beam search step by single tokens; a mask a step would be thrown away."""
    model = model_of(TINY)
    _, state = model.step(model.start(tokens(2, 5)), tokens(2, 3))

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a mask is built that allows everything")

    monkeypatch.setattr(Mask, "dense", refuse)
    model.step(state, tokens(2, 1))


def test_learned_positions_end_with_an_error_that_names_both_lengths() -> None:
    model = model_of(VARIANTS["learned, odd widths"])
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model(tokens(1, 65), tokens(1, 3))
    state = model.start(tokens(1, 3))
    _, state = model.step(state, tokens(1, 64))
    with pytest.raises(UserError, match=r"65 tokens .* 64 learned positions"):
        model.step(state, tokens(1, 1))
