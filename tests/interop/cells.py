"""One cell of the table of options and formats: exported and compared, or refused."""

from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import ConfigError
from crosshead.interop.base import Format
from crosshead.interop.formats import check_expressible
from crosshead.interop.options import OPTIONS
from crosshead.interop.verify import Comparison, compare_export
from tests.interop.small_bundles import bundle_with
from tests.parameters import mostly_slow

NAMES = [
    name for name in OPTIONS if "registered" not in name and not name.startswith("decode.sample")
]
"""The options that a small model can have without a program of its own."""

FORMATS = ("ctranslate2", "huggingface", "onnx")
"""The formats that each try all options; the slow tests do, and a default run has a third each."""

EXACT = 1e-5
"""The largest difference of a log-probability in an exact export of a small model."""


def cells_of(form: Format) -> list[Any]:
    """Return all options as parameters of a test: by default an option is tried in one format."""
    return mostly_slow(NAMES, NAMES[FORMATS.index(form.name) :: len(FORMATS)])


def check_cell(form: Format, name: str, directory: Path) -> Comparison | None:
    """Check that a small model with an option is refused by name, or computes the same."""
    bundle = bundle_with(OPTIONS[name], ends=False)
    if form.cells[name].status == "refused":
        with pytest.raises(ConfigError, match=f"^{form.name} cannot express ") as refusal:
            check_expressible(bundle, form)
        assert name in str(refusal.value)
        return None
    form.write(check_expressible(bundle, form), "float32", directory)
    found = compare_export(bundle, form.load(bundle, directory), None, every_piece=True)
    assert found.largest_difference < EXACT
    return found
