import numpy as np
import pytest
import torch

from crosshead.addons.studies.fitting import FIRST, Reader
from crosshead.addons.studies.gradients import (
    BODIES,
    DECAY,
    LETTERS,
    LOOKING,
    NEAREST,
    PLAIN,
    RECALL,
    TRANSFORMER,
    WIDTH,
    factor,
    gradient_by_distance,
    judged,
    recall,
)


def test_the_factor_is_that_of_a_geometric_decay() -> None:
    norms = 3 * 0.7 ** np.arange(40.0)
    norms[:NEAREST] = 1  # near ones do not count
    assert factor(norms) == pytest.approx(0.7)


@pytest.mark.parametrize("name", BODIES)
def test_no_output_sees_a_later_input(name: str) -> None:
    body = BODIES[name]()
    x = torch.randn(1, 9, WIDTH)
    later = x.clone()
    later[:, 5:] = torch.randn(1, 4, WIDTH)
    torch.testing.assert_close(body(x)[:, :5], body(later)[:, :5])


def test_distances_count_from_the_last_position() -> None:
    class Echo(torch.nn.Module):
        """The last output is the input three before it."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.roll(3, dims=1)

    model = Reader(FIRST + LETTERS + 1, WIDTH, Echo())
    batch = recall(10, torch.Generator().manual_seed(1), 4)
    norms = gradient_by_distance(model, batch.inputs[0])
    assert np.flatnonzero(norms).tolist() == [3]
    assert torch.equal(batch.target_output[:, -1], batch.inputs[0][:, 0])


def test_a_recurrence_that_recalls_nothing_counts_where_attention_has_learned() -> None:
    decay = {PLAIN: 0.7, LOOKING: 1.0, TRANSFORMER: 1.0}
    recalled = {PLAIN: 0.06, LOOKING: 0.5, TRANSFORMER: 1.0}
    found = judged(decay, recalled)
    assert found[RECALL.format(PLAIN)] == 0.06 and found[DECAY.format(PLAIN)] == 0.7
    nobody = judged(decay, {**recalled, TRANSFORMER: 0.1})
    assert nobody[RECALL.format(PLAIN)] == "no model with attention has learned it either"
    assert nobody[RECALL.format(TRANSFORMER)] == 0.1
