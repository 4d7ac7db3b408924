import math

import torch

from crosshead.addons.studies.scaling import KEYS, LearnedAfter, backwards, slower, softness
from crosshead.attention.scores import ScaledDot


def test_softness_is_that_of_the_jacobian() -> None:
    torch.manual_seed(1)
    found = softness(ScaledDot(), 8, 64)
    torch.manual_seed(1)
    query = torch.randn(64, 1, 1, 8)
    key = torch.randn(64, 1, KEYS, 8)
    scores = (query @ key.transpose(-2, -1))[:, 0, 0].double() / 8**0.5
    norms = torch.stack(
        [torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row).norm() for row in scores]
    )
    entropy = torch.distributions.Categorical(logits=scores).entropy().mean()
    torch.testing.assert_close(
        torch.tensor(found.gradient).double(), norms.mean(), atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(
        torch.tensor(found.typical).double(), norms.median(), atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(torch.tensor(found.entropy).double(), entropy, atol=1e-6, rtol=1e-5)


def test_the_label_of_each_position_is_the_letter_opposite() -> None:
    batch = backwards(torch.Generator().manual_seed(1), 2)
    assert batch.target_output.tolist() == [row[::-1] for row in batch.inputs[0].tolist()]


def test_scores_are_compared_where_one_of_them_learned() -> None:
    never, once = [LearnedAfter(math.inf, 0.1)], [LearnedAfter(100, 0.96)]
    learned = {("unscaled", 16): never, ("scaled", 16): once, ("additive", 16): never}
    assert slower(learned, "scaled", 16) == math.inf
    assert slower(learned, "additive", 16) == "neither score learned the task with d_k 16"
