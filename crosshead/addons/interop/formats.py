"""The foreign formats by name, and the refusal of what a format cannot express.

A new format takes a module with a `Format` and a line in `FORMATS` or `LANGUAGE_FORMATS`.
"""

from crosshead.addons.interop.argos import ARGOS
from crosshead.addons.interop.base import Format
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2
from crosshead.addons.interop.ctranslate2_language import CTRANSLATE2_LANGUAGE
from crosshead.addons.interop.gpt2 import GPT2
from crosshead.addons.interop.huggingface import HUGGINGFACE
from crosshead.addons.interop.onnx import ONNX
from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.errors import ConfigError

FORMATS: dict[str, Format] = {
    "ctranslate2": CTRANSLATE2,
    "argos": ARGOS,
    "huggingface": HUGGINGFACE,
    "onnx": ONNX,
}
"""The formats of translation models by the value of `--to`. They refuse other models by name."""

ALL = "all"
"""The value of `--to` for every format that can express a model, in one directory."""

LANGUAGE_FORMATS: dict[str, Format] = {"ctranslate2": CTRANSLATE2_LANGUAGE, "huggingface": GPT2}
"""The formats of language models by the value of `--to`."""


def check_format(name: str) -> None:
    """Check that there is a format of a name."""
    if name in FORMATS:
        return
    types = {kind for form in FORMATS.values() for kind in form.types}
    hint = f"a number format is given with {option('type')}; " if name in types else ""
    raise ConfigError(f"unknown format {name!r}; {hint}known: {', '.join([*FORMATS, ALL])}")


def format_of(bundle: Bundle, name: str) -> Format:
    """Return the format of a name for the models of a bundle's architecture."""
    if bundle.config.model.architecture == "language":
        return LANGUAGE_FORMATS.get(name, FORMATS[name])
    return FORMATS[name]


def refused_options(bundle: Bundle, form: Format) -> list[str]:
    """Return the names of a bundle's options that a format cannot express.

    If the format has no such architecture, its other options do not count.
    """
    found = [
        name
        for name, option in form.options.items()
        if option.holds(bundle) and form.cells[name].status == "refused"
    ]
    architectures = [name for name in found if name.startswith("model.architecture")]
    return architectures or found


def check_expressible(bundle: Bundle, form: Format) -> TextBundle:
    """Return the bundle if a format can express it."""
    whys = refusals(bundle, form)
    if not whys:
        assert isinstance(bundle, TextBundle)  # every other architecture is a refused option
        return bundle
    others = formats_for(bundle)
    said = "; ".join(whys)
    instead = f", or export to {' or '.join(others)}" if others and "export to" not in said else ""
    raise ConfigError(f"{form.name} cannot express {said}{instead}")


def refusals(bundle: Bundle, form: Format) -> list[str]:
    """Return the options of a bundle that a format cannot express, with what works instead."""
    return [f"{name} ({form.cells[name].note})" for name in refused_options(bundle, form)]


def formats_for(bundle: Bundle) -> list[str]:
    """Return the names of the formats that can express a bundle."""
    return [name for name in FORMATS if not refused_options(bundle, format_of(bundle, name))]
