import torch

from crosshead.studies.sinusoids import fitted_errors


def test_a_fit_finds_a_map_where_there_is_one() -> None:
    torch.manual_seed(1)
    any_matrix = torch.randn(6, 6, dtype=torch.float64)
    turn = torch.matrix_exp(any_matrix - any_matrix.T)  # a rotation
    rows = [torch.randn(6, dtype=torch.float64)]
    for _ in range(60):
        rows.append(turn @ rows[-1])
    assert fitted_errors(torch.stack(rows), 3).abs().max() < 1e-9
    assert fitted_errors(torch.randn(60, 6), 3).abs().max() > 0.5
