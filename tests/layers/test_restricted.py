"""A projection that never predicts some tokens."""

import copy

import pytest
import torch
from torch import nn

from crosshead.layers.loss import fused_cross_entropy
from crosshead.layers.restricted import ABSENT, RestrictedProjection


def test_the_probability_of_absent_tokens_is_zero_and_others_are_unchanged() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(7, 4))
    projection, x = RestrictedProjection(weight, [0, 3]), torch.randn(5, 4)
    logits = projection(x)
    assert logits.softmax(-1)[:, [0, 3]].eq(0).all()
    kept = [1, 2, 4, 5, 6]
    torch.testing.assert_close(logits[:, kept], x @ weight[kept].T)
    assert projection.bias.tolist() == [ABSENT, 0, 0, ABSENT, 0, 0, 0]


def test_only_the_matrix_is_a_parameter() -> None:
    projection = RestrictedProjection(nn.Parameter(torch.randn(5, 4)), [1])
    assert [name for name, _ in projection.named_parameters()] == ["weight"]
    assert list(projection.state_dict()) == ["weight"]
    half = copy.deepcopy(projection).to(torch.bfloat16)
    assert half.bias.dtype == torch.bfloat16 and half.bias[1] < -900


def test_it_is_trained_with_the_fused_loss() -> None:
    torch.manual_seed(0)
    projection = RestrictedProjection(nn.Parameter(torch.randn(5, 4)), [0])
    x, target = torch.randn(6, 4), torch.randint(1, 5, (6,))
    fused_cross_entropy(x, projection.weight, projection.bias, target, 0.1).loss.backward()
    assert projection.weight.grad is not None and projection.weight.grad.isfinite().all()


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"absent ids \[5\] do not fit 5 tokens"):
        RestrictedProjection(nn.Parameter(torch.randn(5, 4)), [5])
