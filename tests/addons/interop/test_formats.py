"""Refusals name the options, and the page has the tables and programs of the code."""

import importlib.metadata
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crosshead.addons.interop import formats as module
from crosshead.addons.interop.base import Export, Format, Imported
from crosshead.addons.interop.formats import (
    FORMATS,
    check_expressible,
    export_of,
    exports,
    formats_for,
)
from crosshead.addons.interop.imports.writing import foreign_files
from crosshead.errors import ConfigError
from crosshead.extensions import added
from tests.addons.interop.cells import bundle_with, examples_of
from tests.addons.interop.small_bundles import small_bundle

NOT_RUN = "<!-- not run: needs a trained model with subwords -->"


def export_to(name: str, architecture: str = "transformer") -> Export:
    return next(each for each in FORMATS[name].exports if each.architecture == architecture)


def test_a_refusal_names_every_option_and_what_works() -> None:
    bundle = small_bundle({"score": "additive", "pattern": "window", "radius": 2})
    with pytest.raises(ConfigError) as refusal:
        check_expressible(bundle, export_to("ctranslate2"))
    assert str(refusal.value) == (
        "ctranslate2 cannot express model.score = additive (only scaled-dot or dot); "
        "model.pattern = window (only full): train with other settings"
    )
    assert not formats_for(bundle)


def test_a_usual_bundle_is_expressible() -> None:
    bundle = small_bundle()
    assert check_expressible(bundle, export_to("ctranslate2")) is bundle
    assert formats_for(bundle) == list(exports())


def test_a_language_model_has_exports_of_its_own() -> None:
    bundle = small_bundle({"architecture": "language", "positions": "learned"})
    assert formats_for(bundle) == ["ctranslate2", "huggingface"]
    assert export_of(bundle, "huggingface").architecture == "language"
    assert export_of(small_bundle(), "huggingface").architecture == "transformer"
    with pytest.raises(ConfigError) as refusal:
        check_expressible(bundle, export_of(bundle, "onnx"))
    # An architecture that is refused is the only reason: other options are of no use then.
    assert str(refusal.value) == (
        "onnx cannot express model.architecture = language (only transformer): export to "
        "ctranslate2 or huggingface"
    )


@pytest.mark.parametrize("name", ["onyx", "int8", "marian"])
def test_an_unknown_format_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        export_of(small_bundle(), name)
    assert str(refusal.value) == (
        f"unknown format {name!r}; known: ctranslate2, argos, huggingface, onnx"
    )


def test_a_package_adds_a_format_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Format("mine", read=lambda path, name: Imported(small_bundle()), files=("*.mine",))
    found = importlib.metadata.entry_points

    def entry_points(group: str) -> Any:
        entry = SimpleNamespace(name="mine", load=lambda: mine)
        return [entry] if group == "crosshead.formats" else found(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    added.cache_clear()
    try:
        formats = runpy.run_path(str(module.__file__))["FORMATS"]
    finally:
        added.cache_clear()
    assert formats.keys() - FORMATS.keys() == {"mine"}
    monkeypatch.setitem(FORMATS, "mine", formats["mine"])
    assert foreign_files(["a.mine", "b.csv"]) == ["a.mine"]
    assert "mine" not in exports()


def shown(name: str, path: str) -> str:
    """The program of a format for a model with subwords, as the page has it."""
    form = export_to(name)
    return f"```{form.language}\n{form.usage(small_bundle(), path)}```\n"


def options_table(architecture: str) -> str:
    """The options that some format refuses; equal values of a key in one row."""
    found = [each for form in exports().values() for each in form.exports]
    forms = [each for each in found if each.architecture == architecture]
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in examples_of(forms[0]):
        bundle = bundle_with(name, architecture)
        row = ["refused" if form.refusals(bundle) else "yes" for form in forms]
        key, _, value = name.partition(" = ")
        if "refused" in row:
            rows.setdefault((key, *row), []).append(value)
    lines = [["option", *(form.name for form in forms)], ["---"] * (1 + len(forms))]
    for (key, *row), values in rows.items():
        lines.append([f"{key} = {', '.join(values)}" if any(values) else key, *row])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("options", lambda: options_table("transformer")),
        ("language options", lambda: options_table("language")),
        ("ctranslate2", lambda: shown("ctranslate2", "en-de-ct2")),
        ("argos", lambda: shown("argos", "en-de.argosmodel")),
        ("huggingface", lambda: shown("huggingface", "en-de-hf")),
        ("onnx", lambda: shown("onnx", "en-de-onnx")),
    ],
)
def test_the_page_shows_what_the_code_says(name: str, text: Callable[[], str]) -> None:
    """If this fails, put the text between the two comments of the page."""
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "export.md").read_text("utf-8")
    _, begun, rest = page.partition(f"<!-- {name} -->\n")
    found = rest.partition(f"<!-- end of {name} -->")[0]
    assert begun and found.removeprefix(f"\n{NOT_RUN}\n").strip() == text().strip()
