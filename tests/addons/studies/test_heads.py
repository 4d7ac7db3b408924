from pathlib import Path

import pytest
import torch

from crosshead.addons.studies.captions import transformer
from crosshead.addons.studies.heads import (
    CHEAP,
    CROSS,
    CROSSED,
    ENCODER,
    FULL,
    FUSED,
    KEPT,
    KERNELS,
    LONG,
    SINGLE,
    THIRTY_TWO,
    TOO_MANY,
    attentions,
    build,
    measured,
    of_kind,
    operations,
    quantities,
    row_of,
    run_cost,
)
from crosshead.addons.studies.measuring import bytes_kept
from crosshead.models.registry import build_model
from tests.addons.studies.trials import quick


def test_every_attention_has_a_kind_and_a_layer() -> None:
    found = attentions(build_model(transformer(quick=True), 20, 20))
    assert found == {
        "encoder, self, layer 1": ("encoder", 1),
        "decoder, self, layer 1": ("decoder", 1),
        "decoder, cross, layer 1": ("cross", 1),
    }


def test_costs_are_those_of_the_heads_of_a_kind() -> None:
    costs = {
        "encoder, self, layer 1": {1: [1.0], 2: [2.0]},
        "encoder, self, layer 2": {1: [3.0], 2: [6.0]},
        "decoder, cross, layer 1": {1: [50.0], 2: [70.0]},
    }
    assert of_kind(costs, ENCODER) == [1, 2, 3, 6] and of_kind(costs, CROSSED) == [50, 70]


def test_heads_of_models_that_have_learned_nothing_are_not_judged() -> None:
    costs = {
        "encoder, self, layer 1": {1: [0.0], 2: [0.1]},
        "decoder, cross, layer 1": {1: [0.0], 2: [0.9]},
    }
    nothing = measured({1: [0.0], 4: [0.2], 32: [0.0]}, costs)
    assert set(nothing) == {SINGLE, TOO_MANY, CHEAP, CROSS}
    why = "BLEU of 4 heads is 0.2, below 5"
    assert all(each == why for each in nothing.values())
    found = measured({1: [30.0], 4: [31.0], 32: [28.0]}, costs)
    assert found[SINGLE] == 1 and found[TOO_MANY] == 3 and found[CHEAP] == 0.75


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
    places = [row_of(kernel, length) for kernel in KERNELS for length in FULL.lengths]
    slower = {place: {heads: [0.5, heads / 4, 9.0] for heads in FULL.heads} for place in places}
    memory = {
        place: {heads: [float(heads if "explicit" in place else 1)] for heads in FULL.heads}
        for place in places
    }
    values = quantities(slower, memory)
    assert values[LONG] == 2 and values[THIRTY_TWO] == 8
    assert values[KEPT] == 8 and values[FUSED] == 1


def test_every_layer_is_a_row_of_the_tables(tmp_path: Path) -> None:
    for table in run_cost(quick(tmp_path)).all_tables:
        assert table.rows[0] == ["heads", "1", "2", "4"] and len(table.rows) == 1 + 2 * 2
