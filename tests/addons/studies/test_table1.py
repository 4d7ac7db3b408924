from pathlib import Path

import pytest
import torch
from torch import nn

from crosshead.addons.studies import table1
from crosshead.addons.studies.study import judge
from crosshead.addons.studies.table1 import (
    BELOW,
    FULL,
    RECURRENT,
    SEPARABLE,
    SHAPES,
    TABLE1,
    LayerSize,
    LayerTimes,
    compare,
    depthwise,
    longest_path,
    operations,
    share,
    steps,
    times_sheets,
)
from crosshead.layers.layer_types import RecurrentLayer, SelfAttention, SeparableConvolution
from tests.addons.studies.trials import quick


def test_what_is_counted_holds_at_any_size(tmp_path: Path) -> None:
    measured = {**TABLE1.run(quick(tmp_path)).measured}
    del measured[BELOW]  # times, which need layers of some size
    verdict = judge(TABLE1.bands, measured)
    assert not verdict.missed and list(verdict.unmeasured) == [BELOW]


@pytest.mark.parametrize(
    ("name", "layer", "expected"),
    [
        (FULL, SelfAttention(8, 2), {"attention": 4 * 16**2 * 8, "projections": 8 * 16 * 8**2}),
        (RECURRENT, RecurrentLayer(8, nn.LSTM), {"products": 16 * 16 * 8**2}),
        (
            SEPARABLE,
            SeparableConvolution(8, 3),
            {"depthwise": 6 * 16 * 8, "pointwise": 2 * 16 * 8**2},
        ),
    ],
    ids=["self-attention", "recurrent", "separable"],
)
def test_operations_are_two_a_multiply_add(
    name: str, layer: nn.Module, expected: dict[str, int]
) -> None:
    found = operations(name, layer.double(), torch.randn(1, 16, 8, dtype=torch.float64))
    assert found == expected


def test_depthwise_is_what_the_layer_does_before_its_linear_one() -> None:
    layer, x = SeparableConvolution(4, 5), torch.randn(2, 9, 4)
    torch.testing.assert_close(layer.pointwise(depthwise(layer, x)), layer(x))


def test_steps_are_the_recurrence() -> None:
    lstm, x = nn.LSTM(4, 4), torch.randn(6, 4)
    torch.testing.assert_close(torch.cat(list(steps(lstm, x.split(1)))), lstm(x)[0])


def test_the_path_of_a_layer_is_found_in_what_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a recurrence that reads backwards the first input is a product away."""
    assert longest_path(RECURRENT, LayerSize(6, 4)) == 6
    assert longest_path(FULL, LayerSize(6, 4)) == 1
    monkeypatch.setattr(table1, "steps", lambda lstm, x: steps(lstm, x[::-1]))
    assert longest_path(RECURRENT, LayerSize(6, 4)) == 1


def both(least: float) -> tuple[list[float], list[float]]:
    return [1.0, 1.0, 1.0], [2.0, least, 3.0]


def test_sizes_lie_on_both_sides() -> None:
    assert len(set(SHAPES)) == 16
    assert sum(n < d for n, d in SHAPES) == 8 == sum(n > d for n, d in SHAPES)


def test_faster_is_faster_in_every_round() -> None:
    found: LayerTimes = {(1, 2): both(1.5), (1, 4): both(0.9), (4, 1): both(0.5)}
    assert share(found) == 0.5


def test_both_layers_are_measured_at_each_size(tmp_path: Path) -> None:
    found = compare(quick(tmp_path))
    assert all(seconds > 0 for both in found.values() for each in both for seconds in each)
    over, least = (sheet.table.rows for sheet in times_sheets(found))
    assert over[0] == ["d", "4", "16"]
    assert [[bool(cell) for cell in row] for row in over[1:]] == [
        [True, False, True],
        [True, True, False],
    ]
    # 16 n d^2 over 8 n d^2 + 4 n^2 d.
    assert [[row[0], row[-1]] for row in least[1:]] == [
        ["n = 4, d = 16", "1.78"],
        ["n = 16, d = 4", "0.667"],
    ]
