import pytest
import torch

from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.positions import (
    CAUSAL,
    KEYS,
    NO,
    VALUES,
    WITH,
    WITHOUT,
    YES,
    A,
    B,
    accuracies,
    attention_alone,
    build,
    by_part,
    latest,
    longest_read,
    right,
    share_kept,
    which_is_first,
)


def test_labels_say_which_comes_first() -> None:
    batch = which_is_first(torch.Generator().manual_seed(1), 200)
    seen = set()
    for tokens, labels in zip(batch.inputs[0].tolist(), batch.target_output.tolist(), strict=True):
        assert len(set(tokens)) == len(tokens) and min(tokens) >= FIRST and max(tokens) < NO
        expected = YES if tokens.index(A) < tokens.index(B) else NO
        assert labels.pop(tokens.index(A)) == expected and not any(labels)
        seen.add(expected)
    assert seen == {YES, NO}


def test_attention_without_parameters_is_its_equation() -> None:
    x = torch.randn(2, 5, 4)
    weights = (torch.einsum("bid,bjd->bij", x, x) / 2).softmax(-1)
    torch.testing.assert_close(attention_alone(x), torch.einsum("bij,bjd->bid", weights, x))


def test_chance_without_positions_counts_where_the_task_is_learned_with_them() -> None:
    means = {WITHOUT: 0.5, WITH: 1.0, CAUSAL: 1.0}
    assert accuracies(means) == means
    nobody = accuracies({**means, WITH: 0.6})
    assert nobody[WITHOUT] == "with positions only 60% were right either"
    assert nobody[WITH] == 0.6


def test_each_token_is_labelled_with_the_value_that_its_key_had() -> None:
    batch = latest(60, torch.Generator().manual_seed(1), 3)
    for row, labels in zip((batch.inputs[0] - FIRST).tolist(), batch.target_output, strict=True):
        held: dict[int, int] = {}
        for token, label in zip(row, labels.tolist(), strict=True):
            key, value = divmod(token, VALUES)
            assert label == (held[key] + FIRST if key in held else 0)
            held[key] = value
        assert len(held) == KEYS


def test_learned_positions_end_and_others_do_not() -> None:
    assert longest_read(build("learned", 8), 8) == 8
    assert longest_read(build("alibi", 8), 8) == 32


def test_what_is_not_read_is_neither_right_nor_wrong() -> None:
    model = build("learned", 8)
    batch = latest(16, torch.Generator().manual_seed(1), 5)
    told = right(model, batch, 8)
    assert told[:, 8:].isnan().all()
    assert torch.equal(told[:, :8].isnan(), batch.target_output[:, :8] == 0)
    assert set(told[~told.isnan()].tolist()) <= {0.0, 1.0}
    best = model(batch.inputs[0][:, :8]).argmax(dim=-1)
    chosen = type(batch)(batch.inputs, torch.cat([best, best], dim=1))
    assert right(model, chosen, 8)[:, :8].nanmean() == 1


def test_the_share_kept_is_that_above_chance() -> None:
    chance = 1 / VALUES
    assert share_kept(0.9, 0.9) == pytest.approx(1)
    assert share_kept(0.9, chance) == pytest.approx(0)
    assert share_kept(1.0, (1 + chance) / 2) == pytest.approx(0.5)


def test_nothing_is_kept_of_what_was_not_learned() -> None:
    assert share_kept(0.3, 0.3) == "the task was not learned: 30% right within its length"


def test_parts_are_the_second_half_and_each_length_beyond() -> None:
    correct = torch.tensor([[0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, torch.nan, 0.0, 0.0, 0.0]])
    assert by_part(correct, 4) == [1.0, 0.25, 0.0]
