import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from crosshead.layers.dropout import Dropout, keep_factors

SHARES = [0.1, 0.3, 0.5, 0.9]


def real_share(p: float) -> float:
    """The nearest 256th, which is what one random byte can decide."""
    return round(256 * p) / 256


@pytest.mark.parametrize("p", SHARES)
def test_the_share_dropped_is_the_nearest_256th(p: float) -> None:
    torch.manual_seed(1)
    n, share = 400_000, real_share(p)
    dropped = (Dropout(p)(torch.ones(n)) == 0).float().mean().item()
    assert abs(dropped - share) < 4.5 * math.sqrt(share * (1 - share) / n)
    assert abs(share - p) <= 1 / 512


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", SHARES)
def test_the_scale_is_that_of_the_share_dropped_rounded_once(p: float, dtype: torch.dtype) -> None:
    factors = keep_factors(torch.empty(1000, dtype=dtype), p)
    exact = torch.tensor(1 / (1 - real_share(p)), dtype=dtype)
    assert factors.dtype == dtype
    assert set(factors.unique().tolist()) == {0.0, exact.item()}


@pytest.mark.parametrize("p", SHARES)
def test_the_mean_is_preserved(p: float) -> None:
    torch.manual_seed(2)
    n, share = 400_000, real_share(p)
    deviation = math.sqrt(share / (1 - share) / n)
    assert abs(Dropout(p)(torch.ones(n)).mean() - 1) < 4.5 * deviation


def test_elements_are_dropped_independently() -> None:
    """Neighbours, elements eight apart (one word) and rows agree no more often than by chance."""
    torch.manual_seed(3)
    kept = (Dropout(0.5)(torch.ones(1000, 1000)) != 0).float() - 0.5
    for other in (kept.roll(1, 1), kept.roll(8, 1), kept.roll(1, 0), kept.roll(64, 1)):
        assert abs((kept * other).mean() * 4) < 4.5 / 1000


def test_it_has_the_statistics_of_pytorchs_dropout() -> None:
    torch.manual_seed(4)
    x, p = torch.randn(500_000), 0.3
    ours, theirs = Dropout(p)(x), F.dropout(x, p)
    # A 256th of difference in the share shows as 1/512 at most; the rest is sampling error.
    assert abs((ours == 0).float().mean() - (theirs == 0).float().mean()) < 1 / 512 + 0.004
    assert abs(ours.mean() - theirs.mean()) < 0.01
    assert abs(ours.var() / theirs.var() - 1) < 0.02


def test_the_gradient_is_the_mask() -> None:
    x = torch.randn(50, 40, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert torch.equal((x.grad == 0), (y == 0))
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


@pytest.mark.parametrize("module", [Dropout(0.0), Dropout(0.5).eval()], ids=["p=0", "eval"])
def test_otherwise_it_is_the_identity(module: nn.Module) -> None:
    x = torch.randn(3, 4)
    assert module(x) is x


@pytest.mark.parametrize("p", [1e-9, 0.0019, 0.0039, 0.997, 1.0, 1.5, -0.1, math.nan])
def test_a_share_that_a_byte_cannot_draw_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=r"one random byte .* 1/256 .* 255/256"):
        Dropout(p)


@pytest.mark.parametrize("p", [1 / 256, 255 / 256])
def test_the_extreme_shares_drop_something_and_keep_something(p: float) -> None:
    torch.manual_seed(7)
    found = Dropout(p)(torch.ones(20_000))
    assert 0 < (found == 0).sum() < 20_000
    assert found.isfinite().all()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=4), st.integers(0, 2**31))
def test_a_seed_gives_the_same_elements_in_any_shape(shape: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    shaped = keep_factors(torch.empty(shape), 0.3)
    torch.manual_seed(seed)
    flat = keep_factors(torch.empty(math.prod(shape)), 0.3)
    assert shaped.shape == tuple(shape)
    assert torch.equal(shaped.flatten(), flat)


def test_strides_do_not_matter() -> None:
    torch.manual_seed(5)
    transposed = keep_factors(torch.empty(30, 20).T, 0.5)
    torch.manual_seed(5)
    assert torch.equal(transposed, keep_factors(torch.empty(20, 30), 0.5))


def test_the_seed_decides_and_every_call_differs() -> None:
    dropout, x = Dropout(0.5), torch.ones(1000)
    torch.manual_seed(6)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(6)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


def test_it_says_its_share() -> None:
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"
