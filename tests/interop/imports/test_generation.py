"""The search settings of Hugging Face come along, or a note names them."""

import contextlib
from pathlib import Path

import pytest

from crosshead.interop.imports.generation import search_settings
from crosshead.interop.imports.reading import ForeignModelError
from tests.interop.imports.wrong_values import WRONG


def test_the_search_comes_along() -> None:
    decode, notes = search_settings({"num_beams": 3, "length_penalty": 0.5}, Path("x"))
    assert (decode.beam, decode.length_penalty, decode.length_offset) == (3, 0.5, 0)
    assert decode.stop == "last" and notes == []
    assert search_settings({}, Path("x"))[0].beam == 1


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ForeignModelError, match="x: num_beams: expected a whole number"):
        search_settings({"num_beams": "many"}, Path("x"))


def test_a_value_of_a_wrong_type_is_refused_or_noted() -> None:
    for key in ("num_beams", "length_penalty", "early_stopping", "do_sample", "bad_words_ids"):
        for value in WRONG:
            with contextlib.suppress(ForeignModelError):
                assert search_settings({key: value}, Path("x"))[0].beam > 0
    assert "early_stopping = [1]" in search_settings({"early_stopping": [1]}, Path("x"))[1][0]
