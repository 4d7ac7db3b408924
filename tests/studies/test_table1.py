import pytest
import torch
from torch import nn

from crosshead.layers.layer_types import Recurrent, SelfAttention, SeparableConvolution
from crosshead.studies.conduct import conduct
from crosshead.studies.table1 import (
    FULL,
    RECURRENT,
    SEPARABLE,
    TABLE1,
    depthwise,
    operations,
    stepped,
)


def test_what_is_counted_holds_at_any_size() -> None:
    record = conduct(TABLE1, quick=True, seed=2, say=lambda line: None)
    assert record.verdict.word == "holds", record.verdict


@pytest.mark.parametrize(
    ("name", "layer", "expected"),
    [
        (FULL, SelfAttention(8, 2), {"attention": 4 * 16**2 * 8, "projections": 8 * 16 * 8**2}),
        (RECURRENT, Recurrent(8, nn.LSTM), {"products": 16 * 16 * 8**2}),
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


def test_steps_end_with_the_recurrence() -> None:
    lstm, cell = nn.LSTM(4, 4, batch_first=True), nn.LSTMCell(4, 4)
    named = {name.removesuffix("_l0"): weight for name, weight in lstm.state_dict().items()}
    cell.load_state_dict(named)
    x = torch.randn(1, 6, 4)
    *before, last = stepped(cell, x)
    torch.testing.assert_close(last, lstm(x)[0])
    assert not torch.allclose(before[-1], last)
