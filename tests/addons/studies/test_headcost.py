from pathlib import Path

import pytest
import torch

from crosshead.addons.studies.computation import bytes_kept
from crosshead.addons.studies.headcost import (
    FULL,
    FUSED,
    KEPT,
    KERNELS,
    LONG,
    MANY,
    HeadCost,
    as_rows,
    build,
    operations,
    quantities,
    run,
)
from crosshead.addons.studies.turns import Ratio, Timed
from tests.addons.studies.trials import quick


def test_heads_cost_no_operations() -> None:
    # Four projections, and scores and sums of 32 positions, two a multiply-add.
    assert operations(1) == operations(8) == 8 * 32 * 64**2 + 4 * 32**2 * 64


@pytest.mark.parametrize("heads", [1, 4])
def test_kernels_compute_the_same_layer(heads: int) -> None:
    x, layers = torch.randn(2, 5, 16), {kernel: build(16, heads, kernel) for kernel in KERNELS}
    layers["fused"].load_state_dict(layers["explicit"].state_dict())
    torch.testing.assert_close(layers["fused"](x), layers["explicit"](x))


def test_only_the_explicit_kernel_keeps_a_matrix_of_weights_a_head() -> None:
    x = torch.randn(1, 128, 16, requires_grad=True)
    kept = {
        (kernel, heads): bytes_kept(build(16, heads, kernel), x)
        for kernel in KERNELS
        for heads in (1, 4)
    }
    assert kept["explicit", 4] - kept["explicit", 1] >= 3 * 128**2 * 4
    assert kept["fused", 4] - kept["fused", 1] <= 3 * 128 * 2 * 4


def test_quantities_are_over_one_head() -> None:
    def cost(kernel: str, heads: int) -> HeadCost:
        each = Timed(0.01, Ratio(heads / 4, 0.5, 9))
        kept = 2**20 * (heads if kernel == "explicit" else 1)
        return HeadCost(each, kept)

    found = {
        (kernel, length, heads): cost(kernel, heads)
        for kernel in KERNELS
        for length in FULL.lengths
        for heads in FULL.heads
    }
    values = quantities(found)
    assert values[LONG] == 2 and values[MANY] == 8 and values[KEPT] == 8 and values[FUSED] == 1
    first, eight = (as_rows(found)[line] for line in (1, 4))
    assert first == ["explicit", "64", "1", "10 ms", "", "1.00"]
    assert eight[2:] == ["8", "10 ms", "2 (0.5 to 9)", "8.00"]


def test_every_layer_is_a_line_of_the_table(tmp_path: Path) -> None:
    [table] = run(quick(tmp_path)).tables
    assert len(table.rows) == 1 + 2 * 2 * 3
