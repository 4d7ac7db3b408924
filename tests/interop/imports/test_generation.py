"""The search settings of Hugging Face come along, or a note names them."""

from pathlib import Path

import pytest

from crosshead.interop.imports.generation import search_settings
from crosshead.interop.imports.reading import ForeignModelError


def test_the_search_comes_along() -> None:
    decode, notes = search_settings({"num_beams": 3, "length_penalty": 0.5}, Path("x"))
    assert (decode.beam, decode.length_penalty, decode.length_offset) == (3, 0.5, 0)
    assert decode.stop == "last" and notes == []
    assert search_settings({}, Path("x"))[0].beam == 1


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ForeignModelError, match="x: num_beams: expected a whole number"):
        search_settings({"num_beams": "many"}, Path("x"))
