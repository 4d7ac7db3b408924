"""The choice of CTranslate2's products. `test_ctranslate2.py` compares what they compute."""

import os

import pytest

from crosshead.addons.interop import ctranslate2_library
from crosshead.addons.interop.ctranslate2_library import library


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


def test_a_library_that_the_caller_has_imported_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library()
    monkeypatch.setattr(ctranslate2_library, "saturates_int8", lambda: True)
    monkeypatch.setenv("CT2_USE_MKL", "")
    monkeypatch.delenv("CT2_USE_MKL")
    library()
    assert "set CT2_USE_MKL=1 before the program starts" in caplog.text
