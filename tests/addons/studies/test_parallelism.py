import pytest
import torch
from torch import Generator

from crosshead.addons.studies.fitting import WITHIN, size, weights
from crosshead.addons.studies.measuring import FORWARD, TRAINING
from crosshead.addons.studies.parallelism import (
    ATTENTION,
    BELOW,
    FULL,
    GROWTH,
    LAYER,
    MODEL,
    ONE,
    RECURRENCE,
    SELF,
    SIXTEEN,
    VOCABULARY,
    TimingCase,
    call,
    inputs,
    measured,
    pair_of,
    shapes_of,
    sizes_of,
)
from crosshead.addons.studies.study import FULL as WHOLE
from crosshead.addons.studies.study import QUICK as QUICKLY
from crosshead.addons.studies.study import Effort
from crosshead.text.batching import Batch
from tests.addons.studies.trials import of


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
@pytest.mark.parametrize("level", [SELF, LAYER, MODEL])
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


def test_a_shortened_form_leaves_out_the_large_batches() -> None:
    found = [sizes_of(of(effort)) for effort in (QUICKLY, Effort(0.1), Effort(0.5), WHOLE)]
    assert [len(each.batches) for each in found] == [2, 1, 2, 3]
    assert all(each.widths == FULL.widths for each in found[1:])
    assert found[-1] == FULL


def test_quantities_are_those_of_their_sizes_and_no_others() -> None:
    found = {
        TimingCase(LAYER, 512, sentences, length, direction): [0.0, ratio, 99.0]
        for direction, scale in ((FORWARD, 0.5), (TRAINING, 1))
        for sentences, length, ratio in ((1, 16, 2 * scale), (1, 256, 6 * scale), (16, 256, scale))
    }
    values = measured(found)
    assert values == {ONE.format(512): 6, SIXTEEN: 1, GROWTH: 3}
    assert measured({}) == {}


def test_faster_is_faster_in_every_round_at_sizes_below_the_width() -> None:
    longest = TimingCase(SELF, 64, 1, 16, TRAINING)
    found = {
        longest: [1.5, 2.0],
        longest._replace(length=32): [0.9, 3.0],
        longest._replace(length=64): [0.5, 0.5],
        longest._replace(sentences=4): [0.5, 0.5],
        longest._replace(direction=FORWARD): [0.5, 0.5],
    }
    assert measured(found) == {BELOW: 0.5}
