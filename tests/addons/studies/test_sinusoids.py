import torch
from matplotlib.figure import Figure

from crosshead.addons.studies.sinusoids import WAYS, draw, fitted_errors


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
    figure = Figure()
    curves = {(name, width): [1.0 / width, 2.0] for name in WAYS for width in (2, 4)}
    draw(curves, (2, 4), (1, 16), figure)
    [axes] = figure.axes
    assert axes.get_title() == "Mean and range over d_model 2, 4"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(WAYS.values())
