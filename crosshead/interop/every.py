"""Export a model to every format that can express it: one directory, and one README for all."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from crosshead import __version__
from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from crosshead.interop.export import (
    Exported,
    check_libraries,
    check_place,
    export,
    move,
    number_format,
    staging,
    write_verification,
)
from crosshead.interop.formats import FORMATS, format_of, formats_for, refusals
from crosshead.system.files import atomic_write, explain_os_errors, real_path

README = "README.md"


def export_all(
    bundle: Bundle,
    out: Path,
    *,
    sources: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    verify: bool = True,
    force: bool = False,
    source: Path | None = None,
) -> list[Exported]:
    """Write a model in every format that can express it, each with its default number format.

    Args:
        bundle: The bundle, with its model on a CPU in float32.
        out: The directory to write. Each format has an entry of its name in it.
        sources: Validation lines, as for `export`.
        references: Their translations, as for `export`.
        verify: Whether each export is loaded and compared.
        force: Whether an earlier export at `out` is replaced.
        source: The place of the bundle, as for `export`.

    Returns:
        The exports.

    Raises:
        ConfigError: If no format can express the model.
        UserError: If a library is missing, or an export differs from the model too much.
    """
    names = formats_for(bundle)
    if not names:
        whys = [
            f"{name}: {', '.join(refusals(bundle, format_of(bundle, name)))}" for name in FORMATS
        ]
        raise ConfigError(f"no format can express this model ({'; '.join(whys)}); train another")
    check_place(out, force=force, source=source)
    for name in names:
        form = format_of(bundle, name)
        check_libraries(form, number_format(form, None), verify=verify)
    done = []
    with staging(out) as hidden, explain_os_errors(out):
        for name in names:
            place = _place(name)
            one = export(
                bundle,
                name,
                hidden / place,
                sources=sources,
                references=references,
                verify=verify,
            )
            done.append(replace(one, path=out / place))
        atomic_write(hidden / README, readme(bundle, done).encode())
        write_verification(hidden, "all", None)
        move(hidden, real_path(out))
    return done


def readme(bundle: Bundle, done: Sequence[Exported]) -> str:
    """Return the text that says how each export is loaded, and why others are missing.

    Args:
        bundle: The bundle.
        done: The exports.
    """
    assert isinstance(bundle, TextBundle)  # no format expresses another one
    parts = [f"# A model of crosshead {__version__} for other libraries\n"]
    for each in done:
        form = format_of(bundle, each.form)
        program = f"```{form.language}\n{form.usage(bundle, each.path.name)}```"
        parts.append(f"## {each.path.name}\n\n{program}\n")
        if each.comparison is not None:
            parts.append(f"Compared with crosshead ({each.kind}): {each.comparison}.\n")
    refused = {name: refusals(bundle, format_of(bundle, name)) for name in FORMATS}
    missing = [f"- {name}: {', '.join(options)}\n" for name, options in refused.items() if options]
    if missing:
        parts.append(f"## Formats that cannot express the model\n\n{''.join(missing)}")
    return "\n".join(parts)


def _place(name: str) -> str:
    return f"{'model' if FORMATS[name].suffix else name}{FORMATS[name].suffix}"
