import builtins
from typing import Any

import pytest

from crosshead.errors import UserError
from crosshead.pictures import new_figure, rendered


@pytest.mark.parametrize(
    ("kind", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_figure_becomes_a_file_of_its_kind(kind: str, begins: bytes) -> None:
    figure = new_figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    assert rendered(figure, kind).startswith(begins)


def test_a_missing_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[plot\]'"):
        new_figure()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("x.so: failed to map\nsegment"), r"loaded \(x\.so: failed to map segment\)$"),
        (
            ModuleNotFoundError("No module named 'PIL'", name="PIL"),
            r"loaded \(No module named 'PIL'",
        ),
        (MemoryError(), r"loaded \(MemoryError\)$"),
    ],
)
def test_a_matplotlib_that_cannot_be_loaded_is_not_called_missing(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def failing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise error
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", failing)
    with pytest.raises(UserError, match=rf"matplotlib cannot be {words}") as caught:
        new_figure()
    assert "pip install" not in str(caught.value)
