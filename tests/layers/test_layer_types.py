"""Shapes, and which inputs reach an output: by gradients, not by what a layer says of itself."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from crosshead.attention.masks import Mask
from crosshead.layers.layer_types import (
    Convolution,
    RecurrentLayer,
    SelfAttention,
    SeparableConvolution,
)

D_MODEL, LENGTH, POSITION = 8, 24, 11
NEAR = Mask(lambda b, h, q, k: (q - k).abs() <= 3).dense(LENGTH, LENGTH)


def inputs_that_reach(layer: nn.Module, position: int) -> set[int]:
    """The positions whose inputs have a part in the output at `position`."""
    x = torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64, requires_grad=True)
    layer.double()(x)[0, position].pow(2).sum().backward()
    assert x.grad is not None
    return set(x.grad[0].abs().amax(dim=-1).nonzero().flatten().tolist())


def near(before: int, after: int) -> set[int]:
    return set(range(POSITION - before, POSITION + after + 1))


EVERYTHING, PAST = set(range(LENGTH)), set(range(POSITION + 1))
LAYERS = {
    "self-attention": (lambda: SelfAttention(D_MODEL, 2), EVERYTHING),
    "self-attention, restricted": (lambda: SelfAttention(D_MODEL, 2, NEAR), near(3, 3)),
    "LSTM": (lambda: RecurrentLayer(D_MODEL, nn.LSTM), PAST),
    "GRU": (lambda: RecurrentLayer(D_MODEL, nn.GRU), PAST),
    "LSTM, both directions": (
        lambda: RecurrentLayer(D_MODEL, nn.LSTM, bidirectional=True), EVERYTHING,
    ),
    "convolution": (lambda: Convolution(D_MODEL, 5), near(2, 2)),
    "convolution, even": (lambda: Convolution(D_MODEL, 4), near(1, 2)),
    "convolution, causal": (lambda: Convolution(D_MODEL, 5, causal=True), near(4, 0)),
    "dilated": (lambda: Convolution(D_MODEL, 3, dilation=4), {7, 11, 15}),
    "dilated, causal": (lambda: Convolution(D_MODEL, 3, dilation=4, causal=True), {3, 7, 11}),
    "separable": (lambda: SeparableConvolution(D_MODEL, 5), near(2, 2)),
    "separable, causal": (lambda: SeparableConvolution(D_MODEL, 3, causal=True), near(2, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_an_output_is_made_of_the_inputs_that_its_layer_reaches(name: str) -> None:
    torch.manual_seed(0)
    build, expected = LAYERS[name]
    assert inputs_that_reach(build(), POSITION) == expected


@pytest.mark.parametrize("name", LAYERS)
def test_what_comes_out_has_the_shape_of_what_came_in(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name][0]()
    x = torch.randn(2, LENGTH, D_MODEL)
    assert layer(x).shape == x.shape
    assert torch.isfinite(layer(x)).all()


def test_dilations_of_powers_of_the_kernel_reach_exponentially_far() -> None:
    """k^L positions in L layers, each once: the log_k(n) of Table 1."""
    torch.manual_seed(0)
    stack = nn.Sequential(*(Convolution(D_MODEL, 2, dilation=2**i, causal=True) for i in range(4)))
    assert inputs_that_reach(stack, LENGTH - 1) == set(range(LENGTH - 16, LENGTH))


@pytest.mark.parametrize("causal", [False, True])
def test_a_separable_convolution_is_two_of_torch(causal: bool) -> None:
    torch.manual_seed(1)
    ours = SeparableConvolution(D_MODEL, 3, causal=causal).double()
    x = torch.randn(2, 6, D_MODEL, dtype=torch.float64)
    padded = F.pad(x.transpose(1, 2), (2, 0) if causal else (1, 1))
    filters = ours.filters.T[:, None]  # channel, 1, time
    expected = ours.pointwise(F.conv1d(padded, filters, groups=D_MODEL).transpose(1, 2))
    torch.testing.assert_close(ours(x), expected)


def test_filters_begin_uniform_as_those_of_torch() -> None:
    torch.manual_seed(1)
    ours = SeparableConvolution(4000, 4).filters
    theirs = nn.Conv1d(4000, 4000, 4, groups=4000).weight
    for filters in (ours, theirs):
        assert 0.499 < filters.max() <= 0.5 and -0.5 <= filters.min() < -0.499
        assert abs(filters.var() - 1 / 12) < 0.002


def test_two_directions_share_an_even_width() -> None:
    with pytest.raises(ValueError, match="a width of 7 evenly"):
        RecurrentLayer(7, nn.GRU, bidirectional=True)
