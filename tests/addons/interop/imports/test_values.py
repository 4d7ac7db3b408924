"""Values of foreign configurations are checked, and a wrong one is named with its file."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.values import (
    Control,
    check_tensors,
    checked,
    number,
    ordered,
    shown,
    token_id,
    truth,
    vocabulary,
    whole_number,
    zero_start,
)
from crosshead.decoding.search import DecodeConfig


def test_whole_numbers_are_those_of_json_and_of_yaml() -> None:
    assert whole_number({"a": 3}, "a", "x") == whole_number({"a": "3"}, "a", "x") == 3
    for value in (None, "three", 3.5, True, "9" * 30):
        with pytest.raises(ForeignModelError, match="x: a: expected a whole number"):
            whole_number({"a": value}, "a", "x")


def test_numbers_are_finite_and_null_is_the_usual_one() -> None:
    assert number({"a": 3}, "a", "x", 1) == 3 and number({"a": 0.5}, "a", "x", 1) == 0.5
    assert number({"a": None}, "a", "x", 1) == number({}, "a", "x", 1) == 1
    for value in ("3", True, [3], float("nan"), float("inf"), 10**400):
        with pytest.raises(ForeignModelError, match="x: a: expected a number"):
            number({"a": value}, "a", "x", 1)


def test_truth_values_are_no_texts() -> None:
    assert truth({"a": True}, "a", "x") and truth({}, "a", "x", usual=True)
    assert not truth({"a": None}, "a", "x", usual=True) and not truth({}, "a", "x")
    for value in ("false", 0, 1, [], {}):
        with pytest.raises(ForeignModelError, match="x: a: expected true or false"):
            truth({"a": value}, "a", "x")


def test_a_token_may_be_missing() -> None:
    assert token_id({"a": 3}, "a", "x") == 3
    assert token_id({"a": None}, "a", "x") is token_id({}, "a", "x") is None
    with pytest.raises(ForeignModelError, match=r"x: a: expected a whole number, found \[3\]"):
        token_id({"a": [3]}, "a", "x")


def test_a_value_is_shown_shortly() -> None:
    assert shown("a" * 99) == "'" + "a" * 59 and shown([1, "b"]) == "[1, 'b']"
    assert shown([[1], 2]) == "a list of 2 values" and shown([1] * 9) == "a list of 9 values"
    assert shown({"a": [1]}) == "a mapping of 1 values"


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
