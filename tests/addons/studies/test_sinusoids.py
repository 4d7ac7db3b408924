import torch

from crosshead.addons.studies.sinusoids import WAYS, fitted_errors, panel


def test_a_fit_finds_a_map_where_there_is_one() -> None:
    torch.manual_seed(1)
    any_matrix = torch.randn(6, 6, dtype=torch.float64)
    turn = torch.matrix_exp(any_matrix - any_matrix.T)  # a rotation
    rows = [torch.randn(6, dtype=torch.float64)]
    for _ in range(60):
        rows.append(turn @ rows[-1])
    assert fitted_errors(torch.stack(rows), 3).abs().max() < 1e-9
    assert fitted_errors(torch.randn(60, 6), 3).abs().max() > 0.5


def test_the_picture_has_a_title_and_one_entry_for_each_way() -> None:
    curves = {(name, width): [1.0 / width, 2.0] for name in WAYS for width in (2, 4)}
    shown = panel(curves, (2, 4), (1, 16))
    assert shown.title.endswith("mean and range over d_model 2, 4")
    assert [line.label for line in shown.lines] == list(WAYS.values())
    assert list(shown.lines[0].y) == [0.375, 2.0]
    assert list(shown.lines[0].spread) == [(0.25, 0.5), (2.0, 2.0)]
