import math

import torch

from crosshead.attention.scores import ScaledDot


def test_scores_are_dot_products_over_the_root_of_the_width() -> None:
    query, key = torch.randn(2, 3, 4, 16), torch.randn(2, 3, 5, 16)
    scores = ScaledDot()(query, key)
    expected = torch.einsum("bhqe,bhke->bhqk", query, key) / math.sqrt(16)
    torch.testing.assert_close(scores, expected)


def test_the_scale_keeps_the_variance_at_one() -> None:
    """Footnote 4 of Vaswani et al. 2017: without it the variance would be the width, 256."""
    torch.manual_seed(0)
    query, key = torch.randn(1, 4, 64, 256), torch.randn(1, 4, 64, 256)
    assert 0.9 < ScaledDot()(query, key).var() < 1.1


def test_another_scale() -> None:
    query, key = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4)
    torch.testing.assert_close(ScaledDot(2.0)(query, key), 2.0 * query @ key.transpose(-2, -1))
