import pytest
import torch
from torch import nn

from crosshead.layers.feedforward import FeedForward


def test_it_is_equation_2_at_every_position() -> None:
    layer = FeedForward(4, 6)
    nn.init.normal_(layer.inner.bias)
    nn.init.normal_(layer.outer.bias)
    x = torch.randn(2, 3, 4)
    inner = (x[1, 2] @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    expected = inner @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x)[1, 2], expected)


@pytest.mark.parametrize(
    ("activation", "theirs"),
    [
        ("relu", nn.ReLU()),
        ("gelu", nn.GELU()),
        ("gelu-tanh", nn.GELU(approximate="tanh")),
        ("swish", nn.SiLU()),
    ],
)
def test_activations(activation: str, theirs: nn.Module) -> None:
    layer, x = FeedForward(4, 6, activation=activation), torch.randn(2, 3, 4)
    torch.testing.assert_close(layer(x), layer.outer(theirs(layer.inner(x))))


def test_dropout_acts_on_the_inner_activations_in_training() -> None:
    layer, x = FeedForward(4, 64, dropout=0.5), torch.randn(2, 3, 4)
    assert not torch.allclose(layer(x), layer(x))
    layer.eval()
    torch.testing.assert_close(layer(x), layer.outer(layer.inner(x).relu()))


def test_matrices_are_glorot_uniform_and_biases_zero() -> None:
    torch.manual_seed(0)
    layer = FeedForward(64, 256)
    for linear in (layer.inner, layer.outer):
        bound = (6 / (64 + 256)) ** 0.5
        assert 0.99 * bound < linear.weight.abs().max() <= bound
        assert 0.95 < linear.weight.var() / (bound**2 / 3) < 1.05
        assert (linear.bias == 0).all()


def test_the_outer_matrix_begins_smaller_by_its_gain() -> None:
    torch.manual_seed(0)
    whole = FeedForward(16, 32)
    torch.manual_seed(0)
    half = FeedForward(16, 32, output_gain=0.5)
    torch.testing.assert_close(half.outer.weight, whole.outer.weight / 2)
    assert torch.equal(half.inner.weight, whole.inner.weight)
