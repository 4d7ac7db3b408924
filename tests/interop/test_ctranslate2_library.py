"""CTranslate2 is imported so that it multiplies bytes exactly."""

import os

import pytest

from crosshead.interop import ctranslate2_library
from crosshead.interop.ctranslate2_library import library


@pytest.mark.parametrize(
    ("saturates", "given", "expected"),
    [(True, None, "1"), (True, "0", "0"), (False, None, None)],
)
def test_mkl_is_chosen_where_bytes_would_overflow(
    saturates: bool, given: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2_library, "saturates_int8", lambda: saturates)
    monkeypatch.setenv("CT2_USE_MKL", given or "")
    if given is None:
        monkeypatch.delenv("CT2_USE_MKL")
    assert hasattr(library().specs.transformer_spec, "TransformerSpec")
    assert os.environ.get("CT2_USE_MKL") == expected
