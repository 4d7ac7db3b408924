import time
from functools import partial

import pytest
import torch

from crosshead.addons.studies.turns import FORWARD, TRAINING, in_turns, of_layer, ratio, timed


def test_computations_take_turns_behind_a_first_call_each() -> None:
    said: list[str] = []
    calls = {name: partial(said.append, name) for name in "abc"}
    found = in_turns(calls, rounds=2, seconds=0)
    assert "".join(said) == "abc" + "abc" + "cba"
    assert {name: len(each) for name, each in found.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_time_is_that_of_one_call() -> None:
    calls = {"short": lambda: None, "long": partial(time.sleep, 0.02)}
    found = in_turns(calls, rounds=2, seconds=0.05)
    assert all(0.02 <= each < 1 for each in found["long"])
    assert max(found["short"]) < 0.02


def test_each_computation_stands_beside_its_baseline() -> None:
    calls = {"short": partial(time.sleep, 0.01), "long": partial(time.sleep, 0.03)}
    found = timed(calls, lambda name: "short", rounds=2, seconds=0)
    assert found["short"].ratio == (1, 1, 1)
    assert found["long"].seconds >= 0.03 and found["long"].ratio.median > 1
    assert found["long"].shown.endswith(" ms")


def test_only_training_has_gradients_and_they_do_not_add_up() -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    of_layer(layer, x, FORWARD)()
    assert layer.weight.grad is None
    for _ in range(2):
        of_layer(layer, x, TRAINING)()
        torch.testing.assert_close(layer.weight.grad, x.sum(dim=0).expand(2, 3))
    assert x.grad is None


def test_ratios_are_those_of_rounds() -> None:
    found = ratio([2.0, 9.0, 3.0], [1.0, 1.0, 2.0])
    assert found == pytest.approx((2, 1.5, 9))
    assert str(found) == "2 (1.5 to 9)"
