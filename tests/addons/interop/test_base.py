"""Every format follows the interface."""

from typing import get_args

from crosshead.addons.interop.base import Status
from crosshead.addons.interop.formats import FORMATS
from crosshead.addons.interop.options import OPTIONS


def test_every_format_has_a_cell_for_every_option() -> None:
    for name, form in FORMATS.items():
        assert form.name == name
        assert list(form.cells) == list(OPTIONS)
        assert {cell.status for cell in form.cells.values()} <= set(get_args(Status))
        assert "float32" in form.types


def test_what_is_not_exact_has_a_note() -> None:
    for form in FORMATS.values():
        for name, cell in form.cells.items():
            assert cell.status == "exact" or cell.note, (form.name, name)
