import pytest
import torch
from torch import Generator

from crosshead.addons.studies.effort import FULL as WHOLE
from crosshead.addons.studies.effort import QUICK as QUICKLY
from crosshead.addons.studies.effort import Effort
from crosshead.addons.studies.equal import WITHIN, weights
from crosshead.addons.studies.fitting import size
from crosshead.addons.studies.parallelism import (
    ATTENTION,
    FULL,
    GROWTH,
    LAYER,
    MODEL,
    ONE,
    RECURRENCE,
    SIXTEEN,
    VOCABULARY,
    TimingCase,
    TimingSizes,
    beginnings,
    call,
    conclusion,
    inputs,
    measured,
    pair_of,
    shapes_of,
    sizes_of,
)
from crosshead.addons.studies.turns import FORWARD, TRAINING, Ratio
from crosshead.text.batching import Batch


@pytest.mark.parametrize("width", FULL.widths)
def test_both_have_as_many_weights(width: int) -> None:
    layers = pair_of(LAYER, width)
    assert abs(size(layers[RECURRENCE]) / size(layers[ATTENTION]) - 1) <= WITHIN
    assert abs(size(layers[ATTENTION]) / (8 * width**2) - 1) <= WITHIN
    shapes = shapes_of(width)
    counted = {name: weights(shape, VOCABULARY) for name, shape in shapes.items()}
    assert abs(counted[RECURRENCE] / counted[ATTENTION] - 1) <= WITHIN


def test_a_batch_is_full() -> None:
    batch = inputs(MODEL, 3, 8, 32, Generator().manual_seed(1))
    assert isinstance(batch, Batch)
    assert batch.source.shape == batch.target_output.shape == (3, 8)
    assert batch.count == 24


@pytest.mark.parametrize("name", [ATTENTION, RECURRENCE])
@pytest.mark.parametrize("level", [LAYER, MODEL])
def test_only_the_way_back_has_gradients_and_they_do_not_add_up(name: str, level: str) -> None:
    module, given = pair_of(level, 64)[name], inputs(level, 1, 5, 64, Generator().manual_seed(1))
    weight = next(module.parameters())
    call(module, given, FORWARD)()
    assert weight.grad is None
    call(module, given, TRAINING)()
    assert weight.grad is not None
    once = weight.grad.clone()
    call(module, given, TRAINING)()
    torch.testing.assert_close(weight.grad, once)


def sizes(low: dict[int, float]) -> tuple[dict[TimingCase, Ratio], TimingSizes]:
    """Ratios whose smallest are those of a width, forwards half of that, and a grid of them."""
    how = TimingSizes(tuple(low), (1, 16), (16, 256), 3, 0.0)
    found = {
        TimingCase(level, width, sentences, length, direction): Ratio(
            2 * low[width], low[width] / (1 + (direction == FORWARD)), 9
        )
        for level in (LAYER, MODEL)
        for width in how.widths
        for sentences in how.batches
        for length in how.lengths
        for direction in (FORWARD, TRAINING)
    }
    return found, how


def test_the_claim_begins_to_hold_where_it_does_at_all_larger_widths() -> None:
    found, how = sizes({256: 1.1, 512: 0.9, 1024: 1.5, 2048: 3})
    assert "layer alone, 1 sentence at once, from width 1,024 on" in conclusion(found, how)
    rows = beginnings(found, how).rows
    assert rows[1:3] == [
        [LAYER, FORWARD, "2,048", "2,048"],
        [LAYER, TRAINING, "1,024", "1,024"],
    ]
    assert rows[3] == [MODEL, FORWARD, "2,048", "2,048"]
    found, how = sizes({256: 0.5, 512: 0.9})
    assert all(row[2:] == ["at none measured"] * 2 for row in beginnings(found, how).rows[1:])
    assert "at no width up to 512" in conclusion(found, how)


def test_a_shortened_form_leaves_out_the_large_batches() -> None:
    found = [sizes_of(effort) for effort in (QUICKLY, Effort(0.1), Effort(0.5), WHOLE)]
    assert [len(each.batches) for each in found] == [2, 1, 2, 3]
    assert all(each.widths == FULL.widths for each in found[1:])
    assert found[-1] == FULL and found[1].rounds >= 2 and found[1].seconds < FULL.seconds


def test_quantities_are_those_of_their_sizes_and_no_others() -> None:
    found, _ = sizes({256: 1.0, 512: 3.0})
    short = TimingCase(LAYER, 512, 1, 16, TRAINING)
    values = measured({**found, short: Ratio(2, 1, 3)})
    assert values[ONE.format(512)] == 6 == values[SIXTEEN] and values[GROWTH] == 3
    assert isinstance(values[ONE.format(1024)], str)
    assert all(isinstance(each, str) for each in measured({}).values())
