from pathlib import Path

import pytest
import torch
from torch import nn

from crosshead.addons.studies.study import judge
from crosshead.addons.studies.table1 import (
    CONTIGUOUS,
    FULL,
    RECURRENT,
    SEPARABLE,
    TABLE1,
    LayerSize,
    depthwise,
    longest_path,
    operations,
)
from crosshead.layers.layer_types import RecurrentLayer, SelfAttention, SeparableConvolution
from tests.addons.studies.trials import quick


def test_what_is_counted_holds_at_any_size(tmp_path: Path) -> None:
    verdict = judge(TABLE1.bands, TABLE1.run(quick(tmp_path)).measured)
    assert not verdict.missed and not verdict.unmeasured


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


def test_the_path_of_a_layer_is_found_in_what_it_computes() -> None:
    assert longest_path(FULL, LayerSize(6, 4)) == 1
    assert longest_path(CONTIGUOUS, LayerSize(6, 4, 3)) == 5
