import pytest
import torch
from torch import Generator

from crosshead.studies.effort import FULL as WHOLE
from crosshead.studies.effort import QUICK as QUICKLY
from crosshead.studies.effort import Effort
from crosshead.studies.equal import WITHIN, weights
from crosshead.studies.fitting import size
from crosshead.studies.parallelism import (
    ATTENTION,
    FORWARD,
    FULL,
    GROWTH,
    LAYER,
    MODEL,
    ONE,
    RECURRENCE,
    SIXTEEN,
    TRAINING,
    VOCABULARY,
    Case,
    Grid,
    beginnings,
    beginnings_table,
    conclusion,
    grid,
    layer_pair,
    measured,
    random_batch,
    run_layer,
    shapes_of,
)
from crosshead.studies.study import Unmeasured
from crosshead.studies.turns import Ratio

CPU = torch.device("cpu")


@pytest.mark.parametrize("width", FULL.widths)
def test_both_have_as_many_weights(width: int) -> None:
    layers = layer_pair(width)
    assert abs(size(layers[RECURRENCE]) / size(layers[ATTENTION]) - 1) <= WITHIN
    assert abs(size(layers[ATTENTION]) / (8 * width**2) - 1) <= WITHIN
    shapes = shapes_of(width)
    counted = {name: weights(shape, VOCABULARY) for name, shape in shapes.items()}
    assert abs(counted[RECURRENCE] / counted[ATTENTION] - 1) <= WITHIN


def test_a_batch_is_full() -> None:
    batch = random_batch(3, 8, 32, Generator().manual_seed(1), CPU)
    assert batch.source.shape == batch.target_output.shape == (3, 8)
    assert batch.count == 24


@pytest.mark.parametrize("name", [ATTENTION, RECURRENCE])
def test_only_the_way_back_has_gradients_and_they_do_not_add_up(name: str) -> None:
    layer, x = layer_pair(16)[name], torch.randn(1, 5, 16, requires_grad=True)
    run_layer(layer, x, FORWARD)
    assert x.grad is None
    run_layer(layer, x, TRAINING)
    assert x.grad is not None
    once = x.grad.clone()
    run_layer(layer, x, TRAINING)
    torch.testing.assert_close(x.grad, once)


def sizes(low: dict[int, float]) -> tuple[dict[Case, Ratio], Grid]:
    """Ratios whose smallest are those of a width, forwards half of that, and a grid of them."""
    how = Grid(tuple(low), (1, 16), (16, 256), 3, 0.0)
    found = {
        Case(level, width, sentences, length, direction): Ratio(
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
    begins = beginnings(found, how)
    assert begins[LAYER, TRAINING, 1] == 1024 and begins[MODEL, FORWARD, 16] == 2048
    assert "layer alone, 1 sentence at once, from width 1,024 on" in conclusion(begins, how)
    rows = beginnings_table(begins, how).rows
    assert rows[1:3] == [
        [LAYER, FORWARD, "2,048", "2,048"],
        [LAYER, TRAINING, "1,024", "1,024"],
    ]
    found, how = sizes({256: 0.5, 512: 0.9})
    begins = beginnings(found, how)
    assert set(begins.values()) == {None}
    assert "at no width up to 512" in conclusion(begins, how)


def test_a_shortened_form_leaves_out_the_large_batches() -> None:
    found = [grid(effort) for effort in (QUICKLY, Effort(0.1), Effort(0.5), WHOLE)]
    assert [len(each.batches) for each in found] == [2, 1, 2, 3]
    assert all(each.widths == FULL.widths for each in found[1:])
    assert found[-1] == FULL and found[1].rounds >= 2 and found[1].seconds < FULL.seconds


def test_quantities_are_those_of_their_sizes_and_no_others() -> None:
    found, _ = sizes({256: 1.0, 512: 3.0})
    short = Case(LAYER, 512, 1, 16, TRAINING)
    values = measured({**found, short: Ratio(2, 1, 3)})
    assert values[ONE.format(512)] == 6 == values[SIXTEEN] and values[GROWTH] == 3
    assert isinstance(values[ONE.format(1024)], Unmeasured)
    assert all(isinstance(each, Unmeasured) for each in measured({}).values())
