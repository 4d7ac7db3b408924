"""Foreign vocabularies have an id for each piece, and an end and an unknown token."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.imports.vocabularies import Control, ordered, vocabulary, zero_start

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
