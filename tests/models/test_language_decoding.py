"""Properties of all models of monolingual text: a step is the forward, after any calls."""

import pytest
import torch

from crosshead.inspection import record_attention
from tests.models.small_language_models import VARIANTS, model_of, nothing
from tests.models.small_transformers import VOCABULARY, padded, tokens

ALL = pytest.mark.parametrize("name", VARIANTS)


@ALL
def test_a_cached_step_is_the_uncached_forward_at_every_position(name: str) -> None:
    model = model_of(VARIANTS[name])
    text = tokens(2, 30)
    expected = model(text)
    assert expected.shape == (2, 30, VOCABULARY)
    state = model.start(nothing(2))
    for t in range(30):
        features, state = model.step(state, text[:, t : t + 1])
        torch.testing.assert_close(model.logits(features), expected[:, t])


@ALL
@pytest.mark.parametrize("lengths", [(1, 4, 1), (2, 3, 14, 4, 1)])
def test_several_tokens_at_once_count_as_one_by_one(name: str, lengths: tuple[int, ...]) -> None:
    model = model_of(VARIANTS[name])
    text = tokens(2, sum(lengths))
    expected = model(text)
    state, end = model.start(nothing(2)), 0
    for length in lengths:
        features, state = model.step(state, text[:, end : end + length])
        end += length
        torch.testing.assert_close(model.logits(features), expected[:, end - 1])


@ALL
def test_rows_do_not_see_each_other_nor_the_padding_behind_them(name: str) -> None:
    model = model_of(VARIANTS[name])
    rows = [tokens(length, seed=length) for length in (3, 13, 8)]
    together = model(padded(rows))
    for row, found in zip(rows, together, strict=True):
        torch.testing.assert_close(found[: len(row)], model(row[None])[0])


@ALL
def test_no_position_sees_a_later_one_and_each_sees_itself(name: str) -> None:
    model = model_of(VARIANTS[name])
    text = tokens(1, 11)
    before = model(text)
    for t in range(11):
        changed = text.clone()
        changed[0, t] = 4 + (text[0, t] - 3) % (VOCABULARY - 4)
        moved = (model(changed) - before).abs().amax(-1)[0] > 1e-9
        assert not moved[:t].any()
        assert moved[t]


@ALL
def test_selected_rows_go_on_as_if_they_had_been_alone(name: str) -> None:
    """Repeated, reordered, dropped; before the first token, too."""
    model = model_of(VARIANTS[name])
    state = model.start(nothing(2)).select(torch.tensor([1, 0, 1]))
    written = torch.empty(3, 0, dtype=torch.long)
    for number, rows in enumerate([[2, 0, 0, 1], [1], [0, 0, 0], [2, 1]]):
        fed = tokens(written.shape[0], 1 + 3 * number, seed=number)
        features, state = model.step(state, fed)
        written = torch.cat((written, fed), dim=1)
        torch.testing.assert_close(model.logits(features), model(written)[:, -1])
        written, state = written[rows], state.select(torch.tensor(rows))


@ALL
def test_a_selected_state_leaves_the_first_as_it_was(name: str) -> None:
    model = model_of(VARIANTS[name])
    text = tokens(2, 12)
    _, state = model.step(model.start(nothing(2)), text[:, :7])
    other = state.select(torch.tensor([1, 0]))
    model.step(other, tokens(2, 5, seed=9))
    features, _ = model.step(state, text[:, 7:])
    torch.testing.assert_close(model.logits(features), model(text)[:, -1])


@ALL
def test_no_gradient_passes_a_step(name: str) -> None:
    """A cache that is extended in place could not be gone back through."""
    model = model_of(VARIANTS[name]).requires_grad_()
    features, _ = model.step(model.start(nothing(2)), tokens(2, 3))
    assert not features.requires_grad
    assert model(tokens(2, 3)).requires_grad


@ALL
def test_a_state_keeps_at_least_one_row(name: str) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        model_of(VARIANTS[name]).start(nothing(2)).select(torch.empty(0, dtype=torch.long))


@ALL
def test_its_attention_can_be_recorded(name: str) -> None:
    model = model_of(VARIANTS[name])
    with record_attention(model) as recorded:
        model(tokens(2, 3))
    assert len(recorded) == 3
    for [weights] in recorded.values():
        assert weights.shape == (2, 4, 3, 3)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert (weights.triu(1) == 0).all()
