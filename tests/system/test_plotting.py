import builtins
from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import UserError
from crosshead.system.plotting import families_for, new_figure, rendered


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
        (ImportError("x.so: failed to map\nsegment"), r"\(x\.so: failed to map segment\)$"),
        (
            ModuleNotFoundError("No module named 'PIL'", name="PIL"),
            r"\(No module named 'PIL'",
        ),
        (MemoryError(), r"\(MemoryError\)$"),
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
    with pytest.raises(UserError, match=rf"matplotlib fails {words}") as caught:
        new_figure()
    assert "pip install" not in str(caught.value)


@pytest.mark.parametrize("error", [ImportError("backend.so: failed to map"), MemoryError()])
def test_what_fails_as_it_is_drawn_is_said(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matplotlib loads what draws a kind of picture when it is saved."""
    figure = new_figure(figsize=(2, 1))

    def failing(*rest: Any, **named: Any) -> None:
        raise error

    monkeypatch.setattr(figure, "savefig", failing)
    with pytest.raises(UserError, match=r"^no picture: matplotlib fails \("):
        rendered(figure)


def test_a_font_is_found_for_what_the_usual_one_lacks() -> None:
    """U+24B6 is in a font that comes with matplotlib, and not in its usual one."""
    families, missing = families_for("aⒶ")
    assert not missing and len(families) == 2
    figure = new_figure(figsize=(2, 1))
    figure.text(0.5, 0.5, "aⒶ", fontfamily=families)
    rendered(figure)  # a glyph that is missing would be a warning


def test_a_font_is_found_that_is_newer_than_the_list_of_matplotlib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from matplotlib import font_manager

    manager = font_manager.fontManager
    later = [entry for entry in manager.ttflist if entry.name == "STIXGeneral"]
    earlier = [entry for entry in manager.ttflist if not entry.name.startswith("STIX")]
    monkeypatch.setattr(manager, "ttflist", earlier)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [entry.fname for entry in later])
    families, missing = families_for("Ⓐ")
    assert families[-1] == "STIXGeneral" and not missing


def test_characters_that_no_font_has_are_named() -> None:
    families, missing = families_for("a\U0001f6d8\ufdd0")  # the second is no character
    assert "\ufdd0" in missing and "a" not in missing
    assert families


def test_a_font_that_cannot_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.font_manager import FontEntry, fontManager

    (tmp_path / "broken.ttf").write_bytes(b"no font")
    broken = FontEntry(fname=str(tmp_path / "broken.ttf"), name="Broken")
    monkeypatch.setattr(fontManager, "ttflist", [broken, *fontManager.ttflist])
    families, missing = families_for("Ⓐ")
    assert "Broken" not in families and not missing
