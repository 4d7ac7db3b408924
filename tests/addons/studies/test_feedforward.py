import pytest
import torch

from crosshead.addons.studies.feedforward import (
    ARMS,
    PARITY_WITH,
    PARITY_WITHOUT,
    SUM_GAP,
    SUM_WITH,
    WIDTH,
    Arm,
    SumLayer,
    accuracies,
    random_sums,
    sums,
)
from crosshead.addons.studies.fitting import FIRST, size


@pytest.mark.parametrize(("heads", "normed"), [(1, False), (4, True)])
def test_layers_with_and_without_have_as_many_weights(heads: int, normed: bool) -> None:
    with_it, without = (size(SumLayer(heads, feedforward=f, normed=normed)) for f in (True, False))
    assert abs(with_it / without - 1) < 0.01
    assert abs(with_it / (12 * WIDTH**2) - 1) < 0.03


def test_sums_are_labels_at_the_last_token() -> None:
    batch = sums(torch.tensor([[1, 2], [4, 3]]), 5)
    assert (batch.inputs[0] - FIRST).tolist() == [[1, 2, 5], [4, 3, 5]]
    assert batch.target_output.tolist() == [[0, 0, FIRST + 3], [0, 0, FIRST + 2]]
    drawn = random_sums(3, torch.Generator().manual_seed(1), 100).inputs[0][:, :2] - FIRST
    assert {tuple(pair) for pair in drawn.tolist()} == {(a, b) for a in range(3) for b in range(3)}


def test_failing_without_counts_where_one_with_it_learns() -> None:
    learned: dict[Arm, float] = {(*arm, with_it): 1.0 for arm in ARMS for with_it in (True, False)}
    learned[2, 1, False, False] = 0.75
    found = accuracies(learned)
    assert found == {PARITY_WITHOUT: 0.75, PARITY_WITH: 1, SUM_WITH: 1, SUM_GAP: 0}
    nobody = accuracies({**learned, (2, 1, False, True): 0.5, (17, 4, True, True): 0.1})
    for name, share in ((PARITY_WITHOUT, 50), (SUM_GAP, 10)):
        assert nobody[name] == f"with feed-forward only {share}% were right either"
    assert nobody[PARITY_WITH] == 0.5
