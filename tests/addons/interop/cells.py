"""One cell of the table of options and formats: exported and compared, or refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crosshead.addons.interop.base import Foreign, Format
from crosshead.addons.interop.formats import check_expressible
from crosshead.addons.interop.options import LANGUAGE_OPTIONS, OPTIONS
from crosshead.addons.interop.verify import Comparison, compare_export
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from tests.addons.interop.small_bundles import TEXT, bundle_with
from tests.parameters import mostly_slow


def _is_possible(name: str) -> bool:
    return not any(each in name for each in ("registered", "decode.sample"))


NAMES = [name for name in OPTIONS if _is_possible(name)]
"""The options that a small model can have without a program of its own."""

LANGUAGE_DEFAULT = ("tokenizer.kind = bytes", "tokenizer.kind = tokenizer-json")
"""The options of language models that a default run exports, besides those that it refuses."""

FORMATS = ("ctranslate2", "huggingface", "onnx", "argos")
"""The formats that each try all options in the slow tests; a default run has a quarter each."""

EXACT = 1e-5
"""The largest difference of a log-probability in an exact export of a small model."""


def cells_of(form: Format) -> list[Any]:
    """Return all options as parameters of a test: by default an option is tried in one format."""
    if form.options is LANGUAGE_OPTIONS:
        names = [name for name in form.options if _is_possible(name)]
        refused = [name for name in names if form.cells[name].status == "refused"]
        return mostly_slow(names, {*refused, *LANGUAGE_DEFAULT})
    return mostly_slow(NAMES, NAMES[FORMATS.index(form.name) :: len(FORMATS)])


def check_cell(
    form: Format,
    name: str,
    directory: Path,
    load: Callable[[TextBundle, Path], Foreign] | None = None,
) -> Comparison | None:
    """Check that a small model with an option is refused by name, or computes the same.

    Args:
        form: The format.
        name: The option.
        directory: An empty directory.
        load: Loads the export, instead of the library of the format.
    """
    is_language = form.options is LANGUAGE_OPTIONS
    architecture, lines = ("language", TEXT["source"][:3]) if is_language else ("transformer", None)
    bundle = bundle_with(form.options[name], architecture, ends=False)
    if form.cells[name].status == "refused":
        with pytest.raises(ConfigError, match=f"^{form.name} cannot express ") as refusal:
            check_expressible(bundle, form)
        assert name in str(refusal.value)
        return None
    form.write(check_expressible(bundle, form), "float32", directory)
    found = compare_export(bundle, (load or form.load)(bundle, directory), lines, every_piece=True)
    assert found.largest_difference < EXACT and not found.misread
    return found
