import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from crosshead.layers.convolution import GatedConvolution, WeightNormLinear, windows


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (4, 1), (3, 2), (2, 5)])
def test_a_linear_layer_of_windows_is_the_convolution_of_torch(kernel: int, dilation: int) -> None:
    torch.manual_seed(kernel)
    x = torch.randn(2, 11, 3, dtype=torch.float64)
    weight = torch.randn(5, 3, kernel, dtype=torch.float64)  # out, in, time
    expected = F.conv1d(x.transpose(1, 2), weight, dilation=dilation).transpose(1, 2)
    matrix = weight.transpose(1, 2).flatten(1)
    torch.testing.assert_close(F.linear(windows(x, kernel, dilation), matrix), expected)


def test_weight_normalisation_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours = WeightNormLinear(7, 4, 0.5).double()
    with torch.no_grad():
        ours.length.mul_(torch.rand(4) + 0.5)
        ours.bias.normal_()
    theirs = weight_norm(nn.Linear(7, 4, dtype=torch.float64))
    length, direction = theirs.parametrizations.weight.parameters()
    with torch.no_grad():
        length.copy_(ours.length[:, None])
        direction.copy_(ours.direction)
        theirs.bias.copy_(ours.bias)
    x, weighting = torch.randn(3, 7).double(), torch.randn(3, 4).double()
    torch.testing.assert_close(ours(x), theirs(x))
    (ours(x) * weighting).sum().backward()
    (theirs(x) * weighting).sum().backward()
    torch.testing.assert_close(ours.length.grad, length.grad[:, 0])
    torch.testing.assert_close(ours.direction.grad, direction.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


def test_its_weight_begins_as_what_was_drawn() -> None:
    torch.manual_seed(1)
    linear = WeightNormLinear(300, 200, 0.04)
    torch.testing.assert_close(linear.weight(), linear.direction)
    assert linear.weight().std().item() == pytest.approx(0.2, rel=0.02)


def test_a_gated_convolution_is_one_of_torch_and_its_gates() -> None:
    torch.manual_seed(2)
    ours = GatedConvolution(6, 3, keep=1.0).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    weight = ours.linear.weight().unflatten(1, (3, 6)).transpose(1, 2)
    a, b = F.conv1d(x.transpose(1, 2), weight, ours.linear.bias).transpose(1, 2).chunk(2, dim=-1)
    torch.testing.assert_close(ours(x), a * torch.sigmoid(b))


@pytest.mark.parametrize("keep", [1.0, 0.7])
def test_a_gated_convolution_keeps_small_variances_at_the_start(keep: float) -> None:
    """Section 3.5: the variance of a gated linear unit is a quarter of its inputs', if small."""
    torch.manual_seed(3)
    convolution = GatedConvolution(256, 3, keep)
    x = 0.1 * torch.randn(4, 100, 256)
    dropped = x * (torch.rand_like(x) < keep) / keep
    assert convolution(dropped).var().item() == pytest.approx(0.01, rel=0.1)
