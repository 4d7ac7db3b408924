"""Export a trained model: refuse, write beside the place, verify, and only then put it there."""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crosshead.addons.interop.base import Foreign, Format, Tolerance
from crosshead.addons.interop.formats import (
    ALL,
    FORMATS,
    check_expressible,
    check_format,
    format_of,
)
from crosshead.addons.interop.languages import with_languages
from crosshead.addons.interop.readme import readme
from crosshead.addons.interop.search_settings import (
    ChosenSearch,
    check_references,
    choose_search,
    usual_search,
)
from crosshead.addons.interop.verify import (
    Comparison,
    check_comparison,
    compare_export,
    pairs_to_compare,
    write_comparison,
)
from crosshead.bundle.base import Bundle
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.errors import BundleError, ConfigError, UserError
from crosshead.system.files import (
    atomic_write,
    explain_os_errors,
    hidden_directory,
    put,
    real_path,
    remove_leftovers,
    synchronise,
    synchronise_all,
)
from crosshead.system.stored import LARGEST_CONFIG, read_metadata
from crosshead.version import __version__

VERIFICATION = "verification.json"
"""The file with the differences between an export and its model. Every export has it, verified or
not: only a place with this file is replaced."""


@dataclass(frozen=True)
class Exported:
    """A finished export.

    Attributes:
        path: The file or directory.
        form: The name of the format.
        kind: The number format of the weights.
        size: The size of all files in bytes.
        search: The search settings that travel with it.
        comparison: The differences from the model; None if it was not verified.
    """

    path: Path
    form: str
    kind: str
    size: int
    search: ChosenSearch
    comparison: Comparison | None


def export(
    bundle: Bundle,
    to: str,
    out: Path,
    *,
    kind: str | None = None,
    sources: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    verify: bool = True,
    force: bool = False,
    source: Path | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Exported:
    """Write a model in a foreign format, and compare what the foreign library computes.

    Nothing is left behind by an error, and an earlier export stays until a new one takes its place.
    """
    check_format(to)
    bundle = with_languages(bundle, source_language, target_language)
    form = format_of(bundle, to)
    text = check_expressible(bundle, form)
    check_references(text, references)
    chosen = number_format(form, kind)
    check_place(out, force=force, suffix=form.suffix, source=source)
    check_libraries(form, chosen, verify=verify)
    with hidden_directory(out) as hidden, explain_os_errors(out):
        done = write_export(text, form, chosen, hidden, out, sources, references, verify)
        check_place(out, force=force, suffix=form.suffix, source=source)  # minutes have passed
        put_export(form, hidden, real_path(out), force=force)
    return done


def check_libraries(form: Format, kind: str, *, verify: bool) -> None:
    """Check that the libraries of a format are installed."""
    if missing := missing_libraries(form, kind, verify=verify):
        raise UserError(missing)


def missing_libraries(form: Format, kind: str, *, verify: bool) -> str:
    """Return which libraries of a format are not installed and what installs them, or ""."""
    to_write = {*form.writes_with}
    if kind != number_format(form, None):
        to_write.update(form.quantises_with)
    needed = to_write | set(form.modules if verify else ())
    missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
    if not missing:
        return ""
    alone = "" if set(missing) & to_write else f", or give {option('no-verify')}"
    return (
        f"{form.name} needs {' and '.join(missing)}: pip install 'crosshead[{form.extra}]'{alone}"
    )


def number_format(form: Format, kind: str | None) -> str:
    """Return the number format of the weights of an export."""
    if kind is None:
        return next(iter(form.types))
    if kind not in form.types:
        raise ConfigError(
            f"{option('type')}: {form.name} has no number format {kind!r}; it has "
            f"{', '.join(form.types)}"
        )
    return kind


def check_place(out: Path, *, force: bool, suffix: str = "", source: Path | None = None) -> None:
    """Check that an export may be written to a place."""
    if not out.name.endswith(suffix):
        raise UserError(f"{out}: expected a name that ends in {suffix}; name another place")
    real = real_path(out)
    remove_leftovers(real.parent, real.name)  # a kill may have left the earlier export there
    if source is not None:
        bundle = real_path(source)
        if real.is_relative_to(bundle) or bundle.is_relative_to(real):
            raise UserError(
                f"{out}: the bundle {source} is there, and an export would damage it; name a place "
                "outside the bundle"
            )
    marker = _marker(real)
    if not os.path.lexists(out):
        if suffix and os.path.lexists(marker) and not is_export(real):
            raise UserError(
                f"{marker} is no file of crosshead, and the export would replace it; move it, or "
                "name another place"
            )
        return
    if not (is_export(real) or _is_empty(real)):
        why = "is no file of crosshead" if os.path.lexists(marker) else "is missing"
        raise UserError(
            f"{out} exists already and is no export of crosshead: {marker.name} {why}; only an "
            "export is replaced: remove it yourself, or name another place"
        )
    if not force:
        raise UserError(
            f"{out} exists already; name another place, or replace it with {option('force')}"
        )
    if (foreign := _foreign_entry(real)) is not None:
        raise UserError(
            f"{out / foreign} is not listed in {marker.name} of the export, and the new export "
            "would remove it; move it, or name another place"
        )


def is_export(place: Path) -> bool:
    """Return whether a place holds an export: its `VERIFICATION` names a format and crosshead."""
    try:
        found = read_metadata(_marker(place), LARGEST_CONFIG)
    except (OSError, BundleError):
        return False
    return found.get("format") in (*FORMATS, ALL) and isinstance(found.get("crosshead"), str)


def _marker(place: Path) -> Path:
    """Return the place of the file that says that another place holds an export."""
    return place / VERIFICATION if place.is_dir() else place.with_name(beside(place.name))


def _written(directory: Path) -> list[str]:
    """Return the names of the files of an export that is a directory, its `VERIFICATION` too."""
    files = {each.relative_to(directory) for each in directory.rglob("*") if not each.is_dir()}
    return sorted(each.as_posix() for each in {*files, Path(VERIFICATION)})


def _foreign_entry(place: Path) -> Path | None:
    """Return the first entry of an export, by name, that crosshead has not written, or None."""
    if not place.is_dir() or _is_empty(place):
        return None
    listed = read_metadata(_marker(place), LARGEST_CONFIG).get("files")
    names = listed if isinstance(listed, list) else []
    files = {Path(each) for each in names if isinstance(each, str)}
    own = {*files, *(parent for each in files for parent in each.parents)}
    found = sorted(each.relative_to(place) for each in place.rglob("*"))
    return next((each for each in found if each not in own), None)


def _is_empty(place: Path) -> bool:
    return place.is_dir() and not any(place.iterdir())


def write_export(
    bundle: TextBundle,
    form: Format,
    kind: str,
    directory: Path,
    out: Path,
    sources: Sequence[str] | None,
    references: Sequence[str] | None,
    verify: bool,
) -> Exported:
    """Write an export into an empty directory and verify it there."""
    form.write(bundle, kind, directory)
    chosen, comparison = ChosenSearch(form.fixed_search or usual_search(bundle)), None
    if verify:
        if sources is not None:
            sources, references = pairs_to_compare(bundle, sources, references)
        foreign = form.load(bundle, directory)
        comparison = compare_export(
            bundle,
            foreign,
            sources,
            every_piece=kind == "float32",
            expected=form.expected and partial(form.expected, bundle, directory),
        )
        check_comparison(comparison, tolerance_of(form, kind, foreign), f"{form.name} {kind}")
        if sources is not None and references is not None:
            chosen = choose_search(bundle, foreign, sources, references, fixed=form.fixed_search)
    form.write_search(bundle, chosen.search, directory)
    if not form.suffix:
        text = readme(bundle, form, real_path(out).name, kind, comparison)
        atomic_write(directory / CARD, text.encode(errors="replace"))
    write_verification(directory, form.name, comparison, type=kind, verified=verify)
    size = sum(each.stat().st_size for each in directory.rglob("*") if each.is_file())
    return Exported(out, form.name, kind, size, chosen, comparison)


def beside(name: str) -> str:
    """Return the name of the file with the differences, beside an export that is one file."""
    return f"{name}.{VERIFICATION}"


def tolerance_of(form: Format, kind: str, foreign: Foreign) -> Tolerance:
    """Return the tolerance of stored weights, or that of the library's computation if it is larger.

    Some processors compute with weights in int16 in int8.
    """
    stored = form.types[kind]
    computed = form.types.get(foreign.computes, stored)
    return max(stored, computed, key=lambda each: each.log_prob)


def write_verification(
    directory: Path, name: str, comparison: Comparison | None, **more: object
) -> None:
    """Write the file that marks an export, with its differences from the model and its files."""
    path = directory / VERIFICATION
    files = _written(directory)
    write_comparison(comparison, path, format=name, **more, crosshead=__version__, files=files)


def put_export(form: Format, hidden: Path, place: Path, *, force: bool) -> None:
    """Put a finished export in its place."""
    if not form.suffix:
        put(hidden, place, replace=force)
        return
    [file] = [each for each in hidden.iterdir() if each.name != VERIFICATION]
    synchronise_all(hidden)
    figures = place.with_name(beside(place.name))
    # First the figures, which mark the place: if the process is killed here, --force still works.
    (hidden / VERIFICATION).replace(figures)
    file.replace(place)
    hidden.rmdir()
    synchronise(place.parent)
