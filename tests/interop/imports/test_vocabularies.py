"""Foreign vocabularies have an id for each piece, and an end and an unknown token."""

from pathlib import Path

import pytest

from crosshead.interop.imports.reading import ForeignModelError
from crosshead.interop.imports.vocabularies import Control, ordered, vocabulary

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
