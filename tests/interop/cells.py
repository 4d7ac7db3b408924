"""One cell of the table of options and formats: exported and compared, or refused."""

from pathlib import Path

import pytest

from crosshead.errors import ConfigError
from crosshead.interop.base import Format
from crosshead.interop.formats import check_expressible
from crosshead.interop.options import OPTIONS
from crosshead.interop.verify import Comparison, compare_export
from tests.interop.small_bundles import bundle_with

NAMES = [
    name for name in OPTIONS if "registered" not in name and not name.startswith("decode.sample")
]
"""The options that a small model can have without a program of its own."""

EXACT = 1e-5
"""The largest difference of a log-probability in an exact export of a small model."""


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
