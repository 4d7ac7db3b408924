"""Refusals name the options, and the page has the tables and programs of the code."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from crosshead.addons.interop.base import EXACT, Cell, Format, cells
from crosshead.addons.interop.formats import (
    FORMATS,
    LANGUAGE_FORMATS,
    check_expressible,
    check_format,
    format_of,
    formats_for,
)
from crosshead.errors import ConfigError
from tests.addons.interop.small_bundles import small_bundle

NOT_RUN = "<!-- not run: needs a trained model with subwords -->"


def test_a_refusal_names_every_option_and_what_works() -> None:
    bundle = small_bundle({"score": "additive", "pattern": "window", "radius": 2})
    with pytest.raises(ConfigError) as refusal:
        check_expressible(bundle, FORMATS["ctranslate2"])
    said = str(refusal.value)
    assert "ctranslate2 cannot express model.score = additive (train with score = " in said
    assert "model.pattern = window (train with pattern = full)" in said
    assert "ctranslate2" not in formats_for(bundle)


def test_a_usual_bundle_is_expressible() -> None:
    bundle = small_bundle()
    assert check_expressible(bundle, FORMATS["ctranslate2"]) is bundle
    assert formats_for(bundle) == list(FORMATS)


def test_an_option_that_a_format_does_not_list_is_exact() -> None:
    refused = Cell("refused", "leave it out")
    assert cells(["new", "old"], {"old": refused}) == {"new": EXACT, "old": refused}
    for form in [*FORMATS.values(), *LANGUAGE_FORMATS.values()]:
        assert form.cells.keys() == form.options.keys()


def test_a_language_model_has_formats_of_its_own() -> None:
    bundle = small_bundle({"architecture": "language", "positions": "learned"})
    assert formats_for(bundle) == ["ctranslate2", "huggingface"]
    assert format_of(bundle, "huggingface") is LANGUAGE_FORMATS["huggingface"]
    assert format_of(small_bundle(), "huggingface") is FORMATS["huggingface"]
    with pytest.raises(ConfigError) as refusal:
        check_expressible(bundle, format_of(bundle, "onnx"))
    # An architecture that is refused is the only reason: other options are of no use then.
    assert str(refusal.value) == (
        "onnx cannot express model.architecture = language (train with --model transformer), or "
        "export to ctranslate2 or huggingface"
    )


@pytest.mark.parametrize("name", ["onyx", "int8"])
def test_an_unknown_format_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_format(name)
    hint = "a number format is given with --type; " if name == "int8" else ""
    assert str(refusal.value) == (
        f"unknown format {name!r}; {hint}known: ctranslate2, argos, huggingface, onnx, all"
    )
    check_format("onnx")


def shown(name: str, path: str) -> str:
    """The program of a format for a model with subwords, as the page has it."""
    bundle = small_bundle()
    form = format_of(bundle, name)
    return f"```{form.language}\n{form.usage(bundle, path)}```\n"


def options_table(formats: Mapping[str, Format]) -> str:
    """The options that some format does not have exactly; equal values of a key in one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in next(iter(formats.values())).options:
        # An architecture that has formats of its own is exact in them.
        own = LANGUAGE_FORMATS if name == "model.architecture = language" else formats
        statuses = [own.get(each, form).cells[name].status for each, form in formats.items()]
        key, _, value = name.partition(" = ")
        if set(statuses) != {"exact"}:
            rows.setdefault((key, *statuses), []).append(value)
    lines = [["option", *formats], ["---"] * (1 + len(formats))]
    for (key, *row), values in rows.items():
        lines.append([f"{key} = {', '.join(values)}" if any(values) else key, *row])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("options", options_table(FORMATS)),
        ("language options", options_table(LANGUAGE_FORMATS)),
        ("ctranslate2", shown("ctranslate2", "en-de-ct2")),
        ("argos", shown("argos", "en-de.argosmodel")),
        ("huggingface", shown("huggingface", "en-de-hf")),
        ("onnx", shown("onnx", "en-de-onnx")),
    ],
)
def test_the_page_shows_what_the_code_says(name: str, text: str) -> None:
    """If this fails, put the text between the two comments of the page."""
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "export.md").read_text("utf-8")
    _, begun, rest = page.partition(f"<!-- {name} -->\n")
    found = rest.partition(f"<!-- end of {name} -->")[0]
    assert begun and found.removeprefix(f"\n{NOT_RUN}\n").strip() == text.strip()
