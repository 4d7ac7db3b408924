import pytest

from crosshead.addons.studies.captions import transformer
from crosshead.addons.studies.heads import (
    CHEAP,
    CROSS,
    CROSSED,
    ENCODER,
    SINGLE,
    TOO_MANY,
    attentions,
    costs_table,
    in_standard_errors,
    measured,
    of_kind,
)
from crosshead.models.registry import build_model


def test_every_attention_has_a_kind_and_a_layer() -> None:
    found = attentions(build_model(transformer(quick=True), 20, 20))
    assert found == {
        "encoder, self, layer 1": ("encoder", 1),
        "decoder, self, layer 1": ("decoder", 1),
        "decoder, cross, layer 1": ("cross", 1),
    }


def test_costs_are_those_of_the_heads_of_a_kind() -> None:
    costs = {
        "encoder, self, layer 1": [1.0, 2.0],
        "encoder, self, layer 2": [3.0, 6.0],
        "decoder, cross, layer 1": [50.0, 70.0],
    }
    assert of_kind(costs, ENCODER) == [1, 2, 3, 6] and of_kind(costs, CROSSED) == [50, 70]


def test_a_difference_is_told_in_standard_errors() -> None:
    # Means 5 and 2, variances 1 and 4 over 4 and 4: the error is sqrt(5/4).
    first, second = [4.0, 5.0, 5.0, 6.0], [0.0, 2.0, 2.0, 4.0]
    variance = (2 / 3 + 8 / 3) / 4
    assert in_standard_errors(first, second) == pytest.approx(3 / variance**0.5)


def test_heads_of_models_that_have_learned_nothing_are_not_judged() -> None:
    costs = {
        "encoder, self, layer 1": [0.0, 0.1],
        "decoder, cross, layer 1": [0.0, 0.9],
    }
    nothing = measured({1: [0.0], 4: [0.2], 32: [0.0]}, costs)
    assert set(nothing) == {SINGLE, TOO_MANY, CHEAP, CROSS}
    why = "BLEU of 4 heads is 0.2, below 5"
    assert all(each == why for each in nothing.values())
    found = measured({1: [30.0], 4: [31.0], 32: [28.0]}, costs)
    assert found[SINGLE] == 1 and found[TOO_MANY] == 3 and found[CHEAP] == 0.75


def test_costs_of_several_seeds_stand_side_by_side() -> None:
    costs = {"encoder.attention": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}
    table = costs_table([30.0, 31.0], costs)
    assert table.rows[1] == [
        "encoder.attention",
        "1.00, 5.00",
        "2.00, 6.00",
        "3.00, 7.00",
        "4.00, 8.00",
    ]
    assert "of 30.0, 31.0" in table.title
