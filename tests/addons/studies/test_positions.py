import torch

from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.positions import (
    CAUSAL,
    NO,
    WITH,
    WITHOUT,
    YES,
    A,
    B,
    accuracies,
    attention_alone,
    fitted_errors,
    which_is_first,
)


def test_labels_say_which_comes_first() -> None:
    batch = which_is_first(torch.Generator().manual_seed(1), 200)
    seen = set()
    for tokens, labels in zip(batch.inputs[0].tolist(), batch.target_output.tolist(), strict=True):
        assert len(set(tokens)) == len(tokens) and min(tokens) >= FIRST and max(tokens) < NO
        expected = YES if tokens.index(A) < tokens.index(B) else NO
        assert labels.pop(tokens.index(A)) == expected and not any(labels)
        seen.add(expected)
    assert seen == {YES, NO}


def test_attention_without_parameters_is_its_equation() -> None:
    x = torch.randn(2, 5, 4)
    weights = (torch.einsum("bid,bjd->bij", x, x) / 2).softmax(-1)
    torch.testing.assert_close(attention_alone(x), torch.einsum("bij,bjd->bid", weights, x))


def test_chance_without_positions_counts_where_the_task_is_learned_with_them() -> None:
    means = {WITHOUT: 0.5, WITH: 1.0, CAUSAL: 1.0}
    assert accuracies(means) == means
    nobody = accuracies({**means, WITH: 0.6})
    assert nobody[WITHOUT] == "with positions only 60% were right either"
    assert nobody[WITH] == 0.6


def test_a_fit_finds_a_map_where_there_is_one() -> None:
    torch.manual_seed(1)
    any_matrix = torch.randn(6, 6, dtype=torch.float64)
    turn = torch.matrix_exp(any_matrix - any_matrix.T)  # a rotation
    rows = [torch.randn(6, dtype=torch.float64)]
    for _ in range(60):
        rows.append(turn @ rows[-1])
    assert fitted_errors(torch.stack(rows), 3).abs().max() < 1e-9
    assert fitted_errors(torch.randn(60, 6), 3).abs().max() > 0.5
