"""Export a model to every format that can express it: one directory, and one README for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crosshead.addons.interop.export import (
    Exported,
    check_place,
    missing_libraries,
    number_format,
    put_export,
    write_export,
    write_verification,
)
from crosshead.addons.interop.formats import (
    ALL,
    FORMATS,
    check_expressible,
    format_of,
    formats_for,
    refusals,
)
from crosshead.addons.interop.languages import with_languages
from crosshead.addons.interop.readme import about, use
from crosshead.addons.interop.search_settings import check_references
from crosshead.bundle.base import Bundle
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError, UserError
from crosshead.system.files import atomic_write, explain_os_errors, hidden_directory, put, real_path


@dataclass(frozen=True)
class EveryExport:
    """The finished exports of a model.

    Attributes:
        exports: The exports.
        left_out: What other formats that can express the model need, by name.
    """

    exports: list[Exported]
    left_out: dict[str, str]


def export_all(
    bundle: Bundle,
    out: Path,
    *,
    sources: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    verify: bool = True,
    force: bool = False,
    source: Path | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> EveryExport:
    """Write a model in every format that can express it, each with its default number format.

    A format whose library is not installed is left out.
    """
    bundle = with_languages(bundle, source_language, target_language)
    names = formats_for(bundle)
    if not names:
        whys = [
            f"{name}: {', '.join(refusals(bundle, format_of(bundle, name)))}" for name in FORMATS
        ]
        raise ConfigError(f"no format can express this model ({'; '.join(whys)}); train another")
    forms = {name: format_of(bundle, name) for name in names}
    text = check_expressible(bundle, forms[names[0]])
    check_references(text, references)
    check_place(out, force=force, source=source)
    needs = {
        name: missing_libraries(form, number_format(form, None), verify=verify)
        for name, form in forms.items()
    }
    left_out = {name: missing for name, missing in needs.items() if missing}
    if len(left_out) == len(forms):
        raise UserError("; ".join(left_out.values()))
    done = []
    with hidden_directory(out) as hidden, explain_os_errors(out):
        for name, form in forms.items():
            if name in left_out:
                continue
            kind, entry, part = number_format(form, None), _entry(name), hidden / f".{name}"
            part.mkdir()
            done.append(
                write_export(text, form, kind, part, out / entry, sources, references, verify)
            )
            put_export(form, part, hidden / entry, force=False)
        atomic_write(hidden / CARD, readme(text, done, left_out).encode())
        write_verification(hidden, ALL, None)
        check_place(out, force=force, source=source)  # minutes have passed
        put(hidden, real_path(out), replace=force)
    return EveryExport(done, left_out)


def readme(bundle: TextBundle, done: Sequence[Exported], left_out: Mapping[str, str]) -> str:
    """Return the text that says how each export is loaded, and why others are missing."""
    parts = ["# A model for other libraries\n", f"{about(bundle)}\n"]
    for each in done:
        form = format_of(bundle, each.form)
        parts.append(use(bundle, form, each.path.name, each.kind, each.comparison))
    refused = {name: refusals(bundle, format_of(bundle, name)) for name in FORMATS}
    missing = [f"- {name}: {', '.join(options)}\n" for name, options in refused.items() if options]
    if missing:
        parts.append(f"## Formats that cannot express the model\n\n{''.join(missing)}")
    if left_out:
        needs = "".join(f"- {each}\n" for each in left_out.values())
        parts.append(f"## Formats that were left out\n\n{needs}")
    return "\n".join(parts)


def _entry(name: str) -> str:
    """Return the name of the file or directory of a format."""
    return f"{'model' if FORMATS[name].suffix else name}{FORMATS[name].suffix}"
