"""The README of an export: what the model does, its licence, and the program that uses it."""

import json

from crosshead.addons.interop.base import Format, words
from crosshead.addons.interop.verify import Comparison
from crosshead.bundle.card import fenced, front_matter, inline_code
from crosshead.bundle.text_bundle import TextBundle
from crosshead.version import __version__


def readme(
    bundle: TextBundle, form: Format, name: str, kind: str, comparison: Comparison | None
) -> str:
    """Return the README of an export that is a directory, with the keys that model hubs index."""
    config = bundle.config
    head = front_matter("", words(config), licence=config.license, library=form.library)
    return f"{head}\n\n{about(bundle)}\n\n{use(bundle, form, name, kind, comparison)}"


def about(bundle: TextBundle) -> str:
    """Return what a model does, its origin and its licence, as far as they are known."""
    config = bundle.config
    parts = [f"A model that {words(config).does}, exported with crosshead {__version__}."]
    if config.origin:
        parts.append(f"It was fine-tuned or imported from {config.origin}.")
    if config.license:
        parts.append(f"Licence: {inline_code(config.license)}.")
    return " ".join(parts)


def use(
    bundle: TextBundle, form: Format, name: str, kind: str, comparison: Comparison | None
) -> str:
    """Return the section on the use of an export: its program, and its differences."""
    quoted = json.dumps(name, ensure_ascii=False)[1:-1]  # as a string of Python or JavaScript
    parts = [
        f"## Use {inline_code(name)} ({form.name} {kind})",
        f"Start this program in the folder that holds {inline_code(name)}:",
        fenced(form.language, form.usage(bundle, quoted)),
    ]
    if form.notes:
        parts.append(form.notes)
    if comparison is not None:
        parts.append(f"Compared with crosshead: {comparison}.")
    return "\n\n".join(parts) + "\n"
