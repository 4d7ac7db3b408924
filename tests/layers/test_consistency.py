"""The loss of two views: its plain form beside PyTorch's losses, and the fused form beside it."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.layers import consistency as module
from crosshead.layers.consistency import (
    CHUNK,
    TwoViewLoss,
    ViewWeights,
    fused_two_view_loss,
    two_view_loss,
)
from crosshead.layers.loss import IGNORED, label_smoothed_cross_entropy

BY = [ViewWeights(0.5, 1.25, 1.25), ViewWeights(0.0, 3.0, 0.0), ViewWeights(0.3, 0.2, 0.7)]
ROWS = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK]

Problem = tuple[Tensor, Tensor, Tensor | None, Tensor]


def problem(
    rows: int, *, bias: bool = True, dtype: torch.dtype = torch.float64, vocabulary: int = 29
) -> Problem:
    """Random hidden states of two views, weight, bias and target."""
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape: int) -> Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.to(dtype).requires_grad_()

    target = torch.randint(vocabulary, (rows,), generator=generator)
    hidden, weight = normal(2, rows, 6), normal(vocabulary, 6)
    return hidden, weight, normal(vocabulary) if bias else None, target


def plain(given: Problem, smoothing: float, by: ViewWeights) -> TwoViewLoss:
    hidden, weight, bias, target = given
    return two_view_loss(F.linear(hidden, weight, bias), target, smoothing, by)


def gradients(loss: Tensor, given: Problem) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [leaf for leaf in given[:3] if leaf is not None]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("by", BY)
def test_the_plain_loss_is_cross_entropies_and_divergences(
    by: ViewWeights, smoothing: float
) -> None:
    logits = torch.randn(2, 12, 7, dtype=torch.float64)
    target = torch.randint(7, (12,))
    found = two_view_loss(logits, target, smoothing, by)
    each = [label_smoothed_cross_entropy(view, target, smoothing) for view in logits]
    first, second = logits.log_softmax(dim=-1)
    # PyTorch's kl_div(input, target) is KL(target || input).
    forward, backward = (
        F.kl_div(q, p, reduction="sum", log_target=True)
        for p, q in ((first, second), (second, first))
    )
    divergence = by.forward * forward + by.backward * backward
    shares = 1 - by.second, by.second
    loss = shares[0] * each[0].loss + shares[1] * each[1].loss + divergence
    torch.testing.assert_close(found.loss, loss)
    torch.testing.assert_close(found.nll, shares[0] * each[0].nll + shares[1] * each[1].nll)
    torch.testing.assert_close(found.divergence, divergence)
    assert found.count == 12


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("rows", ROWS)
def test_the_fused_loss_is_the_plain_loss(rows: int, by: ViewWeights, bias: bool) -> None:
    given = problem(rows, bias=bias)
    expected, found = plain(given, 0.1, by), fused_two_view_loss(*given, 0.1, by)
    assert found.count == rows
    for name in ("loss", "nll", "divergence"):
        torch.testing.assert_close(
            getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10
        )
    # Not the gradient of the sum itself: what arrives from above must be multiplied in.
    pairs = zip(
        gradients(0.3 * found.loss, given), gradients(0.3 * expected.loss, given), strict=True
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("by", BY)
def test_finite_differences_give_the_gradients_of_both_forms(
    by: ViewWeights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    hidden, weight, bias, target = problem(3, vocabulary=5)

    def fused(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return fused_two_view_loss(hidden, weight, bias, target, 0.1, by).loss

    def whole(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return two_view_loss(F.linear(hidden, weight, bias), target, 0.1, by).loss

    assert torch.autograd.gradcheck(fused, (hidden, weight, bias))
    assert torch.autograd.gradcheck(whole, (hidden, weight, bias))


def test_equal_views_do_not_diverge() -> None:
    hidden, weight, bias, target = problem(20)
    same = hidden[:1].detach().expand(2, -1, -1).contiguous().requires_grad_()
    found = fused_two_view_loss(same, weight, bias, target, 0.1, BY[0])
    expected = label_smoothed_cross_entropy(F.linear(same[0], weight, bias), target, 0.1)
    assert found.divergence.item() == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(found.loss, expected.loss)


def test_no_gradient_is_stopped() -> None:
    """SimCut's first view learns from the divergence too: its gradient is not that of a target."""
    given = problem(20)
    with_divergence, without = (
        gradients(fused_two_view_loss(*given, 0.1, ViewWeights(0.0, weight, 0.0)).loss, given)[0]
        for weight in (3.0, 0.0)
    )
    assert not torch.allclose(with_divergence[0], without[0])
    assert not torch.allclose(with_divergence[1], without[1])
    assert not without[1].any()  # the second view has no cross-entropy


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)], ids=str
)
@pytest.mark.parametrize("by", BY[:2])
def test_lower_precisions_are_near_the_exact_loss(
    dtype: torch.dtype, tolerance: float, by: ViewWeights
) -> None:
    given = problem(CHUNK + 100, dtype=dtype)
    wide = tuple(None if x is None else x.detach().double().requires_grad_() for x in given[:3])
    exact = (*wide, given[3])
    found, expected = fused_two_view_loss(*given, 0.1, by), plain(exact, 0.1, by)
    assert found.loss.dtype == found.nll.dtype == found.divergence.dtype == torch.float32
    for name in ("loss", "nll", "divergence"):
        assert getattr(found, name).item() == pytest.approx(
            getattr(expected, name).item(), rel=tolerance
        )
    pairs = zip(gradients(found.loss, given), gradients(expected.loss, exact), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == dtype
        assert (ours.double() - theirs).norm() <= tolerance * theirs.norm()


def test_split_batches_add_up_to_the_whole() -> None:
    hidden, weight, bias, target = given = problem(300)
    whole = fused_two_view_loss(*given, 0.1, BY[0])
    cuts = [slice(0, 3), slice(3, 280), slice(280, 300)]
    parts = [
        fused_two_view_loss(hidden[:, cut], weight, bias, target[cut], 0.1, BY[0]) for cut in cuts
    ]
    total = torch.stack([part.loss for part in parts]).sum()
    torch.testing.assert_close(total, whole.loss, rtol=1e-12, atol=0)
    for ours, theirs in zip(gradients(total, given), gradients(whole.loss, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_judging_computes_no_gradients(guard: type) -> None:
    given = problem(40)
    expected = fused_two_view_loss(*given, 0.1, BY[0])
    with guard():
        found = fused_two_view_loss(*given, 0.1, BY[0])
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    assert not found.loss.requires_grad


def test_the_logits_are_never_held_as_a_whole() -> None:
    shapes: list[tuple[int, ...]] = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            shapes.extend(tuple(x.shape) for x in made if isinstance(x, Tensor))
            return result

    vocabulary = 50
    given = problem(4 * CHUNK, vocabulary=vocabulary)
    with Sizes():
        fused_two_view_loss(*given, 0.1, BY[0]).loss.backward()
    logits = [shape for shape in shapes if vocabulary in shape and shape != (vocabulary, 6)]
    assert (2, CHUNK, vocabulary) in logits
    assert all(max(shape) <= 2 * CHUNK for shape in logits)


@pytest.mark.parametrize("by", BY)
def test_ignored_rows_add_nothing(by: ViewWeights) -> None:
    hidden, weight, bias, target = problem(300, bias=True)
    kept = torch.arange(len(target)) % 3 > 0
    given = hidden, weight, bias, target.where(kept, IGNORED)
    few = hidden[:, kept].detach().requires_grad_(), weight, bias, target[kept]
    found, expected = fused_two_view_loss(*given, 0.1, by), fused_two_view_loss(*few, 0.1, by)
    for name in ("loss", "nll", "divergence"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))
    ours, theirs = gradients(found.loss, given), gradients(expected.loss, few)
    assert not ours[0][:, ~kept].any()
    for one, other in zip([ours[0][:, kept], *ours[1:]], theirs, strict=True):
        torch.testing.assert_close(one, other)
