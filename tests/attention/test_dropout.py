import math
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from crosshead.attention.dropout import (
    Dropout,
    check_share,
    drawing_from,
    drawing_twice,
    dropout,
    keep_factors,
)

SHARES = [0.1, 0.3, 0.5, 0.9]


def real_share(p: float) -> float:
    """The nearest 256th, which is what one random byte can decide."""
    return round(256 * p) / 256


def test_shares_that_a_byte_cannot_draw_are_refused() -> None:
    for share in (0.0, 1 / 256, 0.5, 255 / 256):
        check_share(share)
    for share in (-0.1, 0.0038, 0.9961, 1.0, 2.0):
        with pytest.raises(ValueError, match=rf"{share:g} cannot be drawn"):
            check_share(share)


def test_without_dropout_nothing_is_drawn_or_copied() -> None:
    x, before = torch.ones(100), torch.get_rng_state()
    assert dropout(x, 0.0) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("p", SHARES)
def test_the_share_dropped_is_the_nearest_256th(p: float) -> None:
    torch.manual_seed(1)
    n, share = 400_000, real_share(p)
    dropped = (dropout(torch.ones(n), p) == 0).float().mean().item()
    assert abs(dropped - share) < 4.5 * math.sqrt(share * (1 - share) / n)
    assert abs(share - p) <= 1 / 512


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
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
    assert abs(dropout(torch.ones(n), p).mean() - 1) < 4.5 * deviation


def test_elements_are_dropped_independently() -> None:
    """Neighbours, elements eight apart (one word) and rows agree no more often than by chance."""
    torch.manual_seed(3)
    kept = (dropout(torch.ones(1000, 1000), 0.5) != 0).float() - 0.5
    for other in (kept.roll(1, 1), kept.roll(8, 1), kept.roll(1, 0), kept.roll(64, 1)):
        assert abs((kept * other).mean() * 4) < 4.5 / 1000


def test_it_has_the_statistics_of_pytorchs_dropout() -> None:
    torch.manual_seed(4)
    x, p = torch.randn(500_000), 0.3
    ours, theirs = dropout(x, p), F.dropout(x, p)
    # A 256th of difference in the share shows as 1/512 at most; the rest is sampling error.
    assert abs((ours == 0).float().mean() - (theirs == 0).float().mean()) < 1 / 512 + 0.004
    assert abs(ours.mean() - theirs.mean()) < 0.01
    assert abs(ours.var() / theirs.var() - 1) < 0.02


def test_the_gradient_is_the_mask() -> None:
    x = torch.randn(50, 40, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal((x.grad == 0), (y == 0))
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


@pytest.mark.parametrize("p", [1 / 256, 255 / 256])
def test_the_extreme_shares_drop_something_and_keep_something(p: float) -> None:
    torch.manual_seed(7)
    found = dropout(torch.ones(20_000), p)
    assert 0 < (found == 0).sum() < 20_000
    assert found.isfinite().all()


@settings(max_examples=30)
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
    x = torch.ones(1000)
    torch.manual_seed(6)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(6)
    assert torch.equal(dropout(x, 0.5), first)
    assert torch.equal(dropout(x, 0.5), second)
    assert not torch.equal(first, second)


def plain_factors(count: int, p: float) -> Tensor:
    """`keep_factors` written out: a byte an element, compared and turned into a number."""
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(-(2**63), None)
    dropped = round(256 * p)
    return (words.view(torch.uint8)[:count] >= dropped).double() * (256 / (256 - dropped))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1 / 256, 0.3, 0.5, 255 / 256])
def test_the_fast_form_is_the_plain_one(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(7)
    found = keep_factors(torch.empty(5003, dtype=dtype), p)
    torch.manual_seed(7)
    assert torch.equal(found, plain_factors(5003, p).to(dtype))


def test_a_thread_draws_from_its_own_generator_whatever_the_others_do() -> None:
    def drawn(seed: int, times: int) -> list[Tensor]:
        with drawing_from(torch.Generator().manual_seed(seed)):
            return [dropout(torch.ones(1000), 0.5) for _ in range(times)]

    expected = [drawn(seed, 20) for seed in range(4)]
    found: dict[int, list[Tensor]] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.update({seed: drawn(seed, 20)}))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        assert all(map(torch.equal, found[seed], expected[seed]))


def test_pytorchs_generator_is_left_alone_inside_and_used_again_after() -> None:
    torch.manual_seed(8)
    expected = dropout(torch.ones(100), 0.5)
    torch.manual_seed(8)
    with drawing_from(torch.Generator().manual_seed(1)):
        dropout(torch.ones(100), 0.5)
        with drawing_from(None):
            assert torch.equal(dropout(torch.ones(100), 0.5), expected)
    torch.manual_seed(8)
    assert torch.equal(dropout(torch.ones(100), 0.5), expected)


@pytest.mark.parametrize("generator", [None, torch.Generator()], ids=["PyTorch's", "its own"])
def test_what_is_recomputed_draws_the_same_and_what_follows_goes_on(
    generator: torch.Generator | None,
) -> None:
    def run(*, recomputed: bool) -> tuple[Tensor, Tensor]:
        (generator or torch.default_generator).manual_seed(9)
        x = torch.ones(1000, requires_grad=True)
        with drawing_from(generator):
            y = x
            for p in (0.3, 0.5):
                y = (
                    checkpoint(dropout, y, p, use_reentrant=False, context_fn=drawing_twice)
                    if recomputed
                    else dropout(y, p)
                )
            (y * y).sum().backward()
            return x.grad, dropout(torch.ones(1000), 0.5)

    for found, expected in zip(run(recomputed=True), run(recomputed=False), strict=True):
        assert torch.equal(found, expected)


# The module


def test_in_training_it_is_dropout() -> None:
    x = torch.randn(20, 30)
    torch.manual_seed(1)
    found = Dropout(0.3)(x)
    torch.manual_seed(1)
    assert torch.equal(found, dropout(x, 0.3))


@pytest.mark.parametrize("module", [Dropout(0.0), Dropout(0.5).eval()], ids=["p=0", "eval"])
def test_otherwise_it_is_the_identity(module: nn.Module) -> None:
    x = torch.randn(3, 4)
    assert module(x) is x


@pytest.mark.parametrize("p", [1e-9, 0.0019, 0.0039, 0.997, 1.0, 1.5, -0.1, math.nan])
def test_a_share_that_a_byte_cannot_draw_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=r"one random byte.* 1/256 .* 255/256"):
        Dropout(p)


def test_it_says_its_share() -> None:
    assert repr(Dropout(0.25)) == "Dropout(p=0.25)"
