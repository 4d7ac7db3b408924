import math

import torch

from crosshead.layers.guided_alignment import alignment_loss


def test_by_hand_and_tokens_without_alignments_add_nothing() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.9, 0.1, 0.0]]], dtype=torch.float64)
    alignment = torch.tensor([[[0.5, 0.3, 0.0], [0.0, 0.0, 0.0]]])
    found = alignment_loss(weights, alignment)
    assert math.isclose(found.item(), -(0.5 * math.log(0.5) + 0.3 * math.log(0.25)), rel_tol=1e-4)


def test_it_is_least_at_the_alignment_and_finite_at_zero() -> None:
    torch.manual_seed(0)
    scores = torch.zeros(2, 3, 4, dtype=torch.float64, requires_grad=True)
    alignment = torch.rand(2, 3, 4, dtype=torch.float64).softmax(dim=-1)
    optimizer = torch.optim.Adam([scores], lr=0.05)
    for _ in range(600):
        optimizer.zero_grad()
        alignment_loss(scores.softmax(dim=-1), alignment).backward()
        optimizer.step()
    torch.testing.assert_close(scores.softmax(dim=-1), alignment, atol=1e-3, rtol=0)
    weights = torch.zeros(2, 3, 4, requires_grad=True)
    alignment_loss(weights, alignment).backward()
    assert weights.grad is not None and weights.grad.isfinite().all() and (weights.grad < 0).all()


def test_16_bit_weights_have_a_loss_in_32_bits() -> None:
    weights = torch.tensor([[[0.7, 0.3]]])
    found = alignment_loss(weights.bfloat16(), torch.tensor([[[0.6, 0.4]]]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(
        found, alignment_loss(weights.bfloat16().float(), torch.tensor([[[0.6, 0.4]]]))
    )
