"""Values of foreign configurations are checked, and a wrong one is named with its file."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.values import (
    Control,
    ForeignSettings,
    check_tensors,
    checked,
    ordered,
    vocabulary,
    zero_start,
)
from crosshead.decoding.settings import DecodeConfig


class Settings(ForeignSettings):
    a: int | None = 1


def test_settings_have_defaults_and_others_are_left_out() -> None:
    assert checked(Settings, {"a": 3, "b": 4}, "x").a == 3
    assert checked(Settings, {}, "x").a == 1 and checked(Settings, {"a": None}, "x").a is None
    for value in ("3", 3.5, True, [3]):
        with pytest.raises(ForeignModelError, match=r"x: a: expected a whole number.* imported"):
            checked(Settings, {"a": value}, "x")


def test_a_configuration_that_does_not_fit_names_the_foreign_file() -> None:
    assert checked(DecodeConfig, {"beam": 2}, Path("x")).beam == 2
    with pytest.raises(ForeignModelError, match=r"x: beam: .* this model cannot be imported"):
        checked(DecodeConfig, {"beam": 0}, Path("x"))


PIECES = ["</s>", "<unk>", "a"]


def test_pieces_come_in_the_order_of_their_ids() -> None:
    for ids in ({"a": 2, "</s>": 0, "<unk>": 1}, {"a": "2", "</s>": "0", "<unk>": "1"}):
        assert ordered(ids, Path("x")) == PIECES
    assert vocabulary(PIECES, (None, None, 0, 1), Path("x")).rows == [None, None, 0, 1, 2]


@pytest.mark.parametrize(
    "ids",
    [
        *({}, {"a": 1}, {"a": 0, "b": 0}, {"a": -1, "b": 0}),
        *({"a": 0.0}, {"a": False}, {"a": None}, {"a": [0]}, {"a": "00"}, {"a": "x"}),
    ],
)
def test_gaps_among_the_ids_are_refused(ids: dict[str, object]) -> None:
    with pytest.raises(ForeignModelError, match="x: the ids of the"):
        ordered(ids, Path("x"))


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ((None, None, None, 1), "x: has no end token"),
        ((None, None, 0, None), "x: has no piece <unk>"),
        ((7, None, 0, 1), "x: the control ids"),
        ((0, None, 0, 1), "x: the control ids"),
    ],
)
def test_control_tokens_that_do_not_fit_are_refused(control: Control, message: str) -> None:
    with pytest.raises(ForeignModelError, match=message):
        vocabulary(PIECES, control, Path("x"))


@pytest.mark.parametrize(
    ("control", "start"),
    [
        ((None, None, 0, 1), "pad"),
        ((2, None, 0, 1), "pad"),
        ((3, None, 0, 1), "bos"),
        ((3, 2, 0, 1), "bos"),
    ],
)
def test_a_zero_vector_is_one_of_a_token_that_is_missing_or_has_one(
    control: Control, start: str
) -> None:
    vectors = torch.tensor([[1.0], [1.0], [0.0], [1.0]])
    assert zero_start(control, vectors, Path("x")) == start
    with pytest.raises(ForeignModelError, match="x: targets begin with a zero vector"):
        zero_start((3, 0, 1, 2), vectors, Path("x"))


EXPECTED = {"a": torch.empty(2, 3), "b": torch.empty(4)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a": torch.zeros(3, 2)}, r"'a' has shape \[3, 2\], expected \[2, 3\]"),
        ({"c": torch.zeros(1)}, "'c' is no part of the model"),
        ({"b": torch.zeros(4, dtype=torch.int8)}, "'b' is int8, expected floating-point"),
        ({"b": None}, "'b' is missing"),
        ({"b": torch.tensor([0, 0, float("nan"), 0])}, "'b' holds numbers that are not finite"),
        ({"b": torch.full((4,), -float("inf")).half()}, "'b' holds numbers that are not finite"),
        (
            {"b": torch.full((4,), 1e300, dtype=torch.float64)},
            "'b' holds numbers that are not finite in floa",
        ),
    ],
)
def test_a_difference_is_named(changes: dict[str, torch.Tensor | None], message: str) -> None:
    given = {"a": torch.zeros(2, 3), "b": torch.zeros(4)} | changes
    found = {name: each for name, each in given.items() if each is not None}
    with pytest.raises(ForeignModelError, match=message) as error:
        check_tensors(EXPECTED, found, Path("model.npz"))
    assert str(error.value).startswith("model.npz: tensor")
    assert "fresh copy" not in str(error.value)


def test_equal_tensors_of_another_type_pass() -> None:
    found = {"a": torch.zeros(2, 3).half(), "b": torch.zeros(4)}
    check_tensors(EXPECTED, found, Path("x"))
