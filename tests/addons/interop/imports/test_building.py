"""Weights that do not fit the described model are refused by their name."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.imports.building import check_tensors
from crosshead.addons.interop.imports.reading import ForeignModelError

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
