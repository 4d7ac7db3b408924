import pytest
import torch

from crosshead.attention.positions import sinusoidal
from crosshead.studies.sinusoids import fitted_errors, offset_map


@pytest.mark.parametrize("offset", [0, 1, 7, -3])
def test_the_map_moves_every_position(offset: int) -> None:
    table = sinusoidal(40, 12).double()
    moved = table[10:20] @ offset_map(offset, 12).T
    torch.testing.assert_close(moved, table[10 + offset : 20 + offset], atol=1e-6, rtol=0)


def test_a_fit_finds_a_map_where_there_is_one() -> None:
    torch.manual_seed(1)
    any_matrix = torch.randn(6, 6, dtype=torch.float64)
    turn = torch.matrix_exp(any_matrix - any_matrix.T)  # a rotation
    rows = [torch.randn(6, dtype=torch.float64)]
    for _ in range(60):
        rows.append(turn @ rows[-1])
    assert fitted_errors(torch.stack(rows), 3).abs().max() < 1e-9
    assert fitted_errors(torch.randn(60, 6), 3).abs().max() > 0.5
