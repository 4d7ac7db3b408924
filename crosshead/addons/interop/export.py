"""Export a trained model: refuse, write beside the place, verify, and only then put it there."""

import importlib.util
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from crosshead.addons.interop.base import (
    Export,
    Foreign,
    ForeignSearch,
    Tolerance,
    about,
    named_languages,
    words,
)
from crosshead.addons.interop.formats import FORMATS, check_expressible, export_of
from crosshead.addons.interop.verify import (
    Comparison,
    check_comparison,
    compare_export,
    lines_to_compare,
    longest_output,
)
from crosshead.bundle.base import Bundle
from crosshead.bundle.card import fenced, front_matter, inline_code
from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.caller import option
from crosshead.decoding.settings import DecodeConfig
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

USUAL_LENGTH = 20
"""The number of tokens at which crosshead's length penalty and that of the other libraries have the
same slope in log length: a sentence of usual length."""


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
    search: ForeignSearch
    comparison: Comparison | None


def export(
    bundle: Bundle,
    to: str,
    out: Path,
    *,
    kind: str | None = None,
    sources: Sequence[str] | None = None,
    verify: bool = True,
    force: bool = False,
    source: Path | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Exported:
    """Write a model in a foreign format, and compare what the foreign library computes.

    Nothing is left behind by an error, and an earlier export stays until a new one takes its place.
    """
    form = export_of(bundle, to)
    text = check_expressible(with_languages(bundle, source_language, target_language), form)
    chosen = number_format(form, kind)
    check_place(out, force=force, suffix=form.suffix, source=source)
    check_libraries(form, verify=verify)
    with hidden_directory(out) as hidden, explain_os_errors(out):
        done = _written(text, form, chosen, hidden, out, sources, verify)
        check_place(out, force=force, suffix=form.suffix, source=source)  # minutes have passed
        _put(form, hidden, real_path(out), force=force)
    return done


def with_languages(bundle: Bundle, source: str | None, target: str | None) -> Bundle:
    """Return a bundle with the languages that the user names, which it must not contradict."""
    config, named = bundle.config, named_languages(source, target)
    for key, code in named.items():
        name = option(key.replace("_", "-"), code)
        if not isinstance(config, TextBundleConfig) or config.model.vocabularies == 1:
            raise ConfigError(f"{name}: only translation models have languages")
        several = config.target_languages if key == "target_language" else []
        known = ", ".join(several) or getattr(config, key)
        if known not in (None, code):
            raise ConfigError(f"{name}: the bundle says {known}; leave the option out")
    return replace(bundle, config=config.model_copy(update=named)) if named else bundle


def usual_search(bundle: TextBundle, decode: DecodeConfig | None = None) -> ForeignSearch:
    """Return the search settings nearest to given ones, by default a bundle's.

    CTranslate2 and Hugging Face divide a log-probability by length^p, and crosshead divides by
    ((k + length) / (k + 1))^alpha (Wu et al. 2016, section 7, Eq. 14). No p equals an alpha, so the
    slopes in log length are equal at `USUAL_LENGTH`. For k = 0, as imported models have it, p is
    alpha.
    """
    decode = decode or bundle.config.decode
    exponent = decode.length_penalty
    if decode.length_offset:
        exponent = round(exponent * USUAL_LENGTH / (decode.length_offset + USUAL_LENGTH), 2)
    return ForeignSearch(
        beam=decode.beam,
        length_penalty=exponent,
        max_length=longest_output(bundle),
        sample=decode.sample,
        temperature=decode.temperature,
        top_k=decode.top_k,
        top_p=decode.top_p,
        exact=decode.stop == "exact",
        min_length=decode.min_length,
    )


def missing_libraries(form: Export, *, verify: bool) -> list[str]:
    """Return the libraries of a format that are not installed."""
    needed = {*form.writes_with, *(form.modules if verify else ())}
    return sorted(name for name in needed if importlib.util.find_spec(name) is None)


def check_libraries(form: Export, *, verify: bool) -> None:
    """Check that the libraries of a format are installed."""
    if missing := missing_libraries(form, verify=verify):
        needed = " and ".join(missing)
        raise UserError(f"{form.name} needs {needed}: pip install 'crosshead[export]'")


def number_format(form: Export, kind: str | None) -> str:
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
    if not os.path.lexists(out) and not (suffix and os.path.lexists(_marker(real))):
        return
    if (listed := _files_of(real)) is None:
        raise UserError(
            f"{out} is no export of crosshead by {_marker(real).name}; remove it yourself, or name "
            "another place"
        )
    if not force and os.path.lexists(out):
        raise UserError(
            f"{out} exists already; name another place, or replace it with {option('force')}"
        )
    own = {*listed, *(parent for each in listed for parent in each.parents)}
    for each in sorted(real.rglob("*")):
        if each.relative_to(real) not in own:
            raise UserError(
                f"{out / each.relative_to(real)} is not listed in {VERIFICATION} of the export, "
                "and the new export would remove it; move it, or name another place"
            )


def _files_of(place: Path) -> set[Path] | None:
    """Return the files of an export at a place, none of an empty directory, or None."""
    if place.is_dir() and not any(place.iterdir()):
        return set()
    try:
        found = read_metadata(_marker(place), LARGEST_CONFIG)
    except (OSError, BundleError):
        return None
    if found.get("format") not in FORMATS or not isinstance(found.get("crosshead"), str):
        return None
    files = found.get("files")
    return {Path(each) for each in files if isinstance(each, str)} if files else set()


def _marker(place: Path) -> Path:
    """Return the place of the file that says that another place holds an export."""
    if place.is_dir():
        return place / VERIFICATION
    return place.with_name(f"{place.name}.{VERIFICATION}")


def _written(
    bundle: TextBundle,
    form: Export,
    kind: str,
    directory: Path,
    out: Path,
    sources: Sequence[str] | None,
    verify: bool,
) -> Exported:
    """Write an export into an empty directory and verify it there."""
    form.write(bundle, kind, directory)
    search, comparison = form.fixed_search or usual_search(bundle), None
    if verify:
        foreign = form.load(bundle, directory)
        comparison = compare_export(
            bundle,
            foreign,
            None if sources is None else lines_to_compare(bundle, sources),
            every_piece=kind == "float32",
        )
        check_comparison(comparison, tolerance_of(form, kind, foreign), f"{form.name} {kind}")
    form.write_search(bundle, search, directory)
    if not form.suffix:
        text = readme(bundle, form, real_path(out).name, kind, comparison)
        atomic_write(directory / CARD, text.encode(errors="replace"))
    marker = directory / VERIFICATION
    files = {each.relative_to(directory) for each in directory.rglob("*") if each.is_file()}
    values = {
        "format": form.name,
        "type": kind,
        "verified": verify,
        "crosshead": __version__,
        "files": sorted(each.as_posix() for each in {*files, Path(VERIFICATION)}),
        **(asdict(comparison) if comparison else {}),
    }
    atomic_write(marker, (json.dumps(values, indent=1) + "\n").encode())
    size = sum(each.stat().st_size for each in directory.rglob("*") if each.is_file())
    return Exported(out, form.name, kind, size, search, comparison)


def tolerance_of(form: Export, kind: str, foreign: Foreign) -> Tolerance:
    """Return the tolerance of stored weights, or that of the library's computation if it is larger.

    Some processors compute with weights in int16 in int8.
    """
    stored = form.types[kind]
    computed = form.types.get(foreign.computes, stored)
    return max(stored, computed, key=lambda each: each.log_prob)


def _put(form: Export, hidden: Path, place: Path, *, force: bool) -> None:
    """Put a finished export in its place."""
    if not form.suffix:
        put(hidden, place, replace=force)
        return
    [file] = [each for each in hidden.iterdir() if each.name != VERIFICATION]
    synchronise_all(hidden)
    # First the figures, which mark the place: if the process is killed here, --force still works.
    (hidden / VERIFICATION).replace(_marker(place))
    file.replace(place)
    hidden.rmdir()
    synchronise(place.parent)


def readme(
    bundle: TextBundle, form: Export, name: str, kind: str, comparison: Comparison | None
) -> str:
    """Return the README of an export: the model, its licence, its program and its differences."""
    config = bundle.config
    quoted = json.dumps(name, ensure_ascii=False)[1:-1]  # as a string of Python or JavaScript
    parts = [
        front_matter("", words(config), licence=config.license, library=form.library),
        about(bundle),
        f"## Use {inline_code(name)} ({form.name} {kind})",
        f"Start this program in the folder that holds {inline_code(name)}:",
        fenced(form.language, form.usage(bundle, quoted)),
        form.notes,
        "" if comparison is None else f"Compared with crosshead: {comparison}.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
