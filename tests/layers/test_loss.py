import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.layers import loss as loss_module
from crosshead.layers.loss import (
    CHUNK,
    GPU_LOGITS,
    IGNORED,
    CrossEntropy,
    fused_cross_entropy,
    label_smoothed_cross_entropy,
    rows_at_once,
)

Problem = tuple[Tensor, Tensor, Tensor | None, Tensor]
ROWS = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK]


def problem(
    rows: int,
    *,
    vocabulary: int = 37,
    width: int = 8,
    bias: bool = True,
    dtype: torch.dtype = torch.float64,
    scale: float = 1.0,
) -> Problem:
    """Random features, weight, bias and target; the first three collect gradients."""
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape: int) -> Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return (scale * values).to(dtype).requires_grad_()

    target = torch.randint(vocabulary, (rows,), generator=generator)
    features, weight = normal(rows, width), normal(vocabulary, width)
    return features, weight, normal(vocabulary) if bias else None, target


def plain(
    features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, eps: float
) -> CrossEntropy:
    """The loss in its plain form, of all logits at once: the reference for the fused one."""
    return label_smoothed_cross_entropy(F.linear(features, weight, bias), target, eps)


def gradients(sums: CrossEntropy, given: Problem, times: float = 1.0) -> list[Tensor]:
    """Of features, weight and, where there is one, bias."""
    leaves = [leaf for leaf in given[:3] if leaf is not None]
    return list(torch.autograd.grad(times * sums.loss, leaves))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_plain_loss_is_pytorchs(smoothing: float) -> None:
    logits = torch.randn(20, 11, dtype=torch.float64, requires_grad=True)
    target = torch.randint(11, (20,))
    sums = label_smoothed_cross_entropy(logits, target, smoothing)
    expected = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(sums.loss, expected)
    torch.testing.assert_close(sums.nll, F.cross_entropy(logits, target, reduction="sum").detach())
    assert sums.count == 20
    (found,) = torch.autograd.grad(sums.loss, logits)
    torch.testing.assert_close(found, torch.autograd.grad(expected, logits)[0])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", ROWS)
def test_the_fused_loss_is_the_plain_loss(rows: int, smoothing: float, bias: bool) -> None:
    given = problem(rows, bias=bias)
    expected, found = plain(*given, smoothing), fused_cross_entropy(*given, smoothing)
    assert found.count == rows
    torch.testing.assert_close(found.loss, expected.loss, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.nll, expected.nll, rtol=1e-10, atol=1e-10)
    # Not the gradient of the sum itself: what arrives from above must be multiplied in.
    pairs = zip(gradients(found, given, 0.3), gradients(expected, given, 0.3), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_gpu_computes_more_rows_at_once() -> None:
    assert rows_at_once(torch.empty(10_000, 8), CHUNK) == CHUNK
    for vocabulary, rows in ((10_000, GPU_LOGITS // 10_000), (GPU_LOGITS, CHUNK)):
        elsewhere = torch.empty(vocabulary, 8, device="meta")
        assert rows_at_once(elsewhere, CHUNK) == rows >= CHUNK


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)], ids=str
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_lower_precisions_are_near_the_exact_loss(
    dtype: torch.dtype, tolerance: float, smoothing: float
) -> None:
    given = problem(CHUNK + 100, dtype=dtype)
    wide = tuple(None if x is None else x.detach().double().requires_grad_() for x in given[:3])
    exact = (*wide, given[3])
    found, expected = fused_cross_entropy(*given, smoothing), plain(*exact, smoothing)
    assert found.loss.dtype == found.nll.dtype == torch.float32
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=tolerance)
    assert found.nll.item() == pytest.approx(expected.nll.item(), rel=tolerance)
    for ours, theirs in zip(gradients(found, given), gradients(expected, exact), strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - theirs).norm() <= tolerance * theirs.norm()


@pytest.mark.parametrize(
    ("dtype", "each", "mean"),
    [(torch.float32, 1e-5, 1e-6), (torch.float16, 1e-5, 1e-6), (torch.bfloat16, 4e-3, 5e-4)],
    ids=str,
)
@pytest.mark.parametrize("scale", [0.5, 1.5, 3.0])
def test_the_likelihood_is_that_of_the_logits_as_they_are_rounded(
    dtype: torch.dtype, each: float, mean: float, scale: float
) -> None:
    """From all but certain to vanishing: a token's to `each` nats, and the mean to `mean`."""
    features, weight, bias, _ = problem(300, dtype=dtype, scale=scale)
    logits = F.linear(features, weight, bias).detach()
    target = torch.where(torch.arange(300) % 2 == 0, logits.argmax(dim=1), logits.argmin(dim=1))
    expected = F.cross_entropy(logits.double(), target, reduction="none")
    rows = zip(features.split(1), target.split(1), strict=True)
    found = torch.stack([fused_cross_entropy(h, weight, bias, t, 0.1).nll for h, t in rows])
    lost = found.double() - expected
    assert lost.abs().max() <= each + 1e-6 * expected.max()
    assert abs(lost.mean()) <= mean


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_targets_of_vanishing_probability_cost_what_they_cost(smoothing: float) -> None:
    given = problem(50, dtype=torch.float32, scale=40.0)
    logits = F.linear(*given[:3])
    underflows = logits.softmax(dim=-1).gather(1, given[3][:, None]) == 0
    assert underflows.any() and not underflows.all()
    found, expected = fused_cross_entropy(*given, smoothing), plain(*given, smoothing)
    assert found.nll.item() == pytest.approx(expected.nll.item(), rel=1e-5)
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    for ours, theirs in zip(gradients(found, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_judging_computes_no_gradients(guard: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there room made for any."""
    given = problem(600)
    expected = fused_cross_entropy(*given, 0.1)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a gradient is computed that nobody will ask for")

    monkeypatch.setattr(torch, "mm", refuse)
    monkeypatch.setattr(loss_module, "_Gradients", refuse)
    monkeypatch.setattr(loss_module, "_subtract_targets", refuse)
    with guard():
        found = fused_cross_entropy(*given, 0.1)
    assert found.loss.item() == expected.loss.item()
    assert found.nll.item() == expected.nll.item()
    assert not found.loss.requires_grad


def test_the_logits_are_never_held_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            made = result if isinstance(result, tuple | list) else [result]
            shapes.extend(tuple(x.shape) for x in made if isinstance(x, Tensor))
            return result

    rows, vocabulary = 4 * CHUNK, 50
    given = problem(rows, vocabulary=vocabulary)
    with Sizes():
        fused_cross_entropy(*given, 0.1).loss.backward()
    logits = [shape for shape in shapes if vocabulary in shape and shape != (vocabulary, 8)]
    assert (CHUNK, vocabulary) in logits
    assert all(max(shape) <= CHUNK for shape in logits)


def test_its_gradients_have_no_derivatives_and_say_so() -> None:
    """They are numbers by then, and what follows from them would be a part of the derivative."""
    features, *rest = problem(5)
    squared = fused_cross_entropy(features, *rest, 0.1).loss ** 2
    (first,) = torch.autograd.grad(squared, features, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("bias", [True, False])
def test_the_gradient_of_a_bias_is_held_where_there_is_one(bias: bool) -> None:
    found = fused_cross_entropy(*problem(5, bias=bias), 0.1).loss
    held = [part is not None for part in found.grad_fn.saved_tensors]  # type: ignore[union-attr]
    assert held == [True, True, bias]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_ignored_rows_add_nothing(dtype: torch.dtype, bias: bool) -> None:
    hidden, weight, offset, target = problem(CHUNK + 50, dtype=dtype, bias=bias)
    kept = torch.arange(len(target)) % 3 > 0
    given = hidden, weight, offset, target.where(kept, IGNORED)
    few: Problem = hidden[kept].detach().requires_grad_(), weight, offset, target[kept]
    found, expected = fused_cross_entropy(*given, 0.1), fused_cross_entropy(*few, 0.1)
    torch.testing.assert_close(found.loss, expected.loss)
    torch.testing.assert_close(found.nll, expected.nll)
    ours, theirs = gradients(found, given), gradients(expected, few)
    tolerance = None if dtype == torch.float64 else 2e-2  # other blocks, other roundings
    assert not ours[0][~kept].any()
    for one, other in zip([ours[0][kept], *ours[1:]], theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
