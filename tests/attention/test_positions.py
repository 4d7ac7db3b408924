import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.attention.positions import sinusoidal


def formula(rows: range, d_model: int) -> torch.Tensor:
    """Section 3.5 of Vaswani et al. 2017, entry by entry."""
    table = torch.zeros(len(rows), d_model, dtype=torch.float64)
    for index, row in enumerate(rows):
        for column in range(d_model):
            angle = row / 10000 ** ((column - column % 2) / d_model)
            table[index, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table.float()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 17), st.sampled_from([0, 1, 100, 5000]))
def test_interleaved_is_the_formula_of_the_paper(length: int, d_model: int, start: int) -> None:
    end = start + length
    torch.testing.assert_close(
        sinusoidal(end, d_model)[start:], formula(range(start, end), d_model)
    )


@pytest.mark.parametrize("d_model", [1, 2, 7, 16])
def test_halves_are_the_same_columns_in_another_order(d_model: int) -> None:
    columns = [*range(0, d_model, 2), *range(1, d_model, 2)]
    halves = sinusoidal(20, d_model, layout="halves")
    assert torch.equal(halves, sinusoidal(20, d_model)[:, columns])


def test_a_later_position_is_a_linear_map_of_an_earlier_one() -> None:
    """PE(pos + k) = M_k PE(pos) with one M_k for all pos: the paper's reason for sinusoids."""
    d_model, k = 8, 5
    table = sinusoidal(200, d_model).double()
    angles = k / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    shift = torch.block_diag(*(
        torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]], dtype=torch.float64)
        for a in angles
    ))  # fmt: skip
    torch.testing.assert_close(table[k:], table[:-k] @ shift.T, rtol=0, atol=1e-6)


def test_late_positions_are_exact() -> None:
    """Angles in float32 would be wrong in the fourth decimal a hundred thousand positions out."""
    row = sinusoidal(100_004, 2)[-1]
    torch.testing.assert_close(
        row, torch.tensor([math.sin(100_003), math.cos(100_003)]), rtol=0, atol=1e-7
    )
