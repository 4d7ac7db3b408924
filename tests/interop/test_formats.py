"""Refusals name the options, and the tables name every option."""

from pathlib import Path

import pytest

from crosshead.errors import ConfigError
from crosshead.interop.ctranslate2 import CTRANSLATE2
from crosshead.interop.formats import (
    FORMATS,
    check_expressible,
    formats_for,
    notes_table,
    options_table,
)
from crosshead.interop.onnx import ONNX
from crosshead.interop.options import OPTIONS
from tests.interop.small_bundles import small_bundle

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


def test_the_tables_have_a_row_for_each_option_and_each_note() -> None:
    rows = options_table().splitlines()
    assert len(rows) == 2 + len(OPTIONS)
    assert all(row.count("|") == 2 + len(FORMATS) for row in rows)
    notes = sum(bool(cell.note) for form in FORMATS.values() for cell in form.cells.values())
    assert len(notes_table().splitlines()) == 2 + notes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("options", options_table()),
        ("notes", notes_table()),
        ("ctranslate2", f"```python\n{CTRANSLATE2.usage.format(path='en-de-ct2')}```\n"),
        ("onnx", f"```js\n{ONNX.usage.format(path='en-de-onnx')}```\n"),
    ],
)
def test_the_page_shows_what_the_code_says(name: str, text: str) -> None:
    """If this fails, put the text between the two comments of the page."""
    page = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text("utf-8")
    _, begun, rest = page.partition(f"<!-- {name} -->\n")
    shown = rest.partition(f"<!-- end of {name} -->")[0]
    assert begun and shown.removeprefix(f"\n{NOT_RUN}\n").strip() == text.strip()
