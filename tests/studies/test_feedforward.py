import pytest
import torch

from crosshead.studies.feedforward import WIDTH, Layer, random_sums, sums
from crosshead.studies.fitting import FIRST, size


@pytest.mark.parametrize(("heads", "normed"), [(1, False), (4, True)])
def test_layers_with_and_without_have_as_many_weights(heads: int, normed: bool) -> None:
    with_it, without = (size(Layer(heads, feedforward=f, normed=normed)) for f in (True, False))
    assert abs(with_it / without - 1) < 0.01
    assert abs(with_it / (12 * WIDTH**2) - 1) < 0.03


def test_sums_are_labels_at_the_last_token() -> None:
    batch = sums(torch.tensor([[1, 2], [4, 3]]), 5)
    assert (batch.inputs[0] - FIRST).tolist() == [[1, 2, 5], [4, 3, 5]]
    assert batch.target_output.tolist() == [[0, 0, FIRST + 3], [0, 0, FIRST + 2]]
    drawn = random_sums(3, torch.Generator().manual_seed(1), 100).inputs[0][:, :2] - FIRST
    assert {tuple(pair) for pair in drawn.tolist()} == {(a, b) for a in range(3) for b in range(3)}
