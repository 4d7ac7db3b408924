"""The foreign formats by name, the refusal of what a format cannot express, and the table of both.

A new format takes a module with a `Format` and a line in `FORMATS`.
"""

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from crosshead.interop.argos import ARGOS
from crosshead.interop.base import Format
from crosshead.interop.ctranslate2 import CTRANSLATE2
from crosshead.interop.huggingface import HUGGINGFACE
from crosshead.interop.onnx import ONNX
from crosshead.interop.options import OPTIONS

FORMATS: dict[str, Format] = {
    "ctranslate2": CTRANSLATE2,
    "argos": ARGOS,
    "huggingface": HUGGINGFACE,
    "onnx": ONNX,
}
"""The formats by the value of `--to`."""


def refused_options(bundle: Bundle, form: Format) -> list[str]:
    """Return the names of a bundle's options that a format cannot express.

    Args:
        bundle: The bundle.
        form: The format.
    """
    return [
        name
        for name, option in OPTIONS.items()
        if option.holds(bundle) and form.cells[name].status == "refused"
    ]


def check_expressible(bundle: Bundle, form: Format) -> TextBundle:
    """Return the bundle if a format can express it.

    Args:
        bundle: The bundle.
        form: The format.

    Raises:
        ConfigError: If it cannot. The message names each option and what would work instead.
    """
    whys = refusals(bundle, form)
    if not whys:
        assert isinstance(bundle, TextBundle)  # every other architecture is a refused option
        return bundle
    others = formats_for(bundle)
    instead = f", or export to {' or '.join(others)}" if others else ""
    raise ConfigError(f"{form.name} cannot express {'; '.join(whys)}{instead}")


def refusals(bundle: Bundle, form: Format) -> list[str]:
    """Return the options of a bundle that a format cannot express, with what works instead.

    Args:
        bundle: The bundle.
        form: The format.
    """
    return [f"{name} ({form.cells[name].note})" for name in refused_options(bundle, form)]


def formats_for(bundle: Bundle) -> list[str]:
    """Return the names of the formats that can express a bundle.

    Args:
        bundle: The bundle.
    """
    return [name for name, form in FORMATS.items() if not refused_options(bundle, form)]


def options_table() -> str:
    """Return the table of docs/export.md: every option against every format, in Markdown."""
    rows = [["option", *FORMATS], ["---"] * (1 + len(FORMATS))]
    for name in OPTIONS:
        rows.append([name, *(form.cells[name].status for form in FORMATS.values())])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def notes_table() -> str:
    """Return the notes of docs/export.md: how options are rewritten, and what works instead."""
    rows = [["format", "option", "", "note"], ["---"] * 4]
    rows += [
        [form.name, name, cell.status, cell.note]
        for form in FORMATS.values()
        for name, cell in form.cells.items()
        if cell.note
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
