"""Refusals name the options, and the tables name every option."""

from pathlib import Path

import pytest

from crosshead.errors import ConfigError
from crosshead.interop.ctranslate2 import CTRANSLATE2
from crosshead.interop.ctranslate2_language import CTRANSLATE2_LANGUAGE
from crosshead.interop.formats import (
    FORMATS,
    LANGUAGE_FORMATS,
    check_expressible,
    format_of,
    formats_for,
    notes_table,
    options_table,
)
from crosshead.interop.gpt2 import GPT2
from crosshead.interop.onnx import ONNX
from crosshead.interop.options import LANGUAGE_OPTIONS, OPTIONS
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
    for formats, options in ((FORMATS, OPTIONS), (LANGUAGE_FORMATS, LANGUAGE_OPTIONS)):
        rows = options_table(formats).splitlines()
        assert len(rows) == 2 + len(options)
        assert all(row.count("|") == 2 + len(formats) for row in rows)
        notes = {line.split(" | ")[1] for line in notes_table(formats).splitlines()[2:]}
        assert notes <= options.keys()
    assert "| model.architecture = language | exact | refused | exact | refused |" in options_table(
        FORMATS
    )


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("options", options_table(FORMATS)),
        ("language options", options_table(LANGUAGE_FORMATS)),
        ("notes", notes_table(FORMATS)),
        ("language notes", notes_table(LANGUAGE_FORMATS)),
        ("ctranslate2", f"```python\n{CTRANSLATE2.usage.format(path='en-de-ct2')}```\n"),
        ("gpt2", f"```python\n{GPT2.usage.format(path='story-gpt2')}```\n"),
        (
            "ctranslate2 language",
            f"```python\n{CTRANSLATE2_LANGUAGE.usage.format(path='story-ct2')}```\n",
        ),
        ("onnx", f"```js\n{ONNX.usage.format(path='en-de-onnx')}```\n"),
    ],
)
def test_the_page_shows_what_the_code_says(name: str, text: str) -> None:
    """If this fails, put the text between the two comments of the page."""
    page = (Path(__file__).parent.parent.parent / "docs" / "export.md").read_text("utf-8")
    _, begun, rest = page.partition(f"<!-- {name} -->\n")
    shown = rest.partition(f"<!-- end of {name} -->")[0]
    assert begun and shown.removeprefix(f"\n{NOT_RUN}\n").strip() == text.strip()
