from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.layers.addnorm import ADD_NORM, AddNorm, PostNorm, PreNorm


def around(layer: AddNorm, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    return layer.after(x, sublayer(layer.before(x)))


def test_post_norm_normalises_the_sum() -> None:
    x, layer = torch.randn(2, 3, 8), PostNorm(8, dropout=0.0, eps=1e-5)
    expected = F.layer_norm(x + x.tanh(), (8,))
    torch.testing.assert_close(around(layer, x, torch.tanh), expected)


def test_pre_norm_leaves_the_stream_alone() -> None:
    x, layer = torch.randn(2, 3, 8), PreNorm(8, dropout=0.0, eps=1e-5)
    expected = x + F.layer_norm(x, (8,)).tanh()
    torch.testing.assert_close(around(layer, x, torch.tanh), expected)
    assert torch.equal(around(layer, x, torch.zeros_like), x)


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_dropout_acts_on_the_sublayer_and_not_on_the_stream(kind: str) -> None:
    """A sublayer of ones: dropped elements leave the stream as it was, kept ones add 2."""
    x, layer = torch.randn(4, 10, 8), ADD_NORM[kind](8, dropout=0.5, eps=1e-5)
    layer.norm = torch.nn.Identity()
    added = around(layer, x, torch.ones_like) - x
    kept = added > 1
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(added, 2.0 * kept, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_eps_reaches_the_norm(kind: str) -> None:
    x = torch.full((1, 1, 4), 1e-3) * torch.tensor([1.0, -1.0, 1.0, -1.0])
    outputs = [around(ADD_NORM[kind](4, 0.0, eps), x, torch.nn.Identity()) for eps in (1e-12, 1.0)]
    assert outputs[0].abs().max() > 100 * outputs[1].abs().max()
