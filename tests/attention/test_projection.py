import pytest
import torch
from torch.nn import functional as F

from crosshead.attention.projection import Linear


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (7, 8), (2, 3, 8), (4, 1, 5, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_with_and_without_gradients_it_is_the_same_map(shape: tuple[int, ...], bias: bool) -> None:
    layer, x = Linear(8, 300, bias=bias), torch.randn(shape)
    expected = F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), expected)


def test_any_layout_of_the_input_is_read_right() -> None:
    layer, x = Linear(8, 5), torch.randn(3, 8, 6).transpose(1, 2)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), F.linear(x.contiguous(), layer.weight, layer.bias))
        torch.testing.assert_close(layer(x[:, -1]), layer(x)[:, -1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_keep_theirs(dtype: torch.dtype) -> None:
    layer, x = Linear(8, 5).to(dtype), torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


def test_changed_weights_count_at_once() -> None:
    """Nothing of the weights is kept in another layout: training changes them in place."""
    layer, x = Linear(8, 5), torch.randn(3, 8)
    with torch.no_grad():
        before = layer(x)
        layer.weight.mul_(2)
        layer.bias.mul_(2)
        torch.testing.assert_close(layer(x), 2 * before)
