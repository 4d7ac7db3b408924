"""Export a trained model: refuse, write beside the place, verify, and only then put it there."""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crosshead import __version__
from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.config import nearest
from crosshead.errors import ConfigError, UserError
from crosshead.interop.base import Format
from crosshead.interop.formats import FORMATS, check_expressible, format_of
from crosshead.interop.search_settings import ChosenSearch, choose_search, usual_search
from crosshead.interop.verify import (
    Comparison,
    check_comparison,
    compare_export,
    write_comparison,
)
from crosshead.system.files import explain_os_errors, make_directory, real_path, synchronise

VERIFICATION = "verification.json"
"""The file with the differences between an export and its model."""


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
) -> Exported:
    """Write a model in a foreign format, and compare what the foreign library computes.

    Nothing is left behind by an error, and an earlier export stays until a new one takes its place.

    Args:
        bundle: The bundle, with its model on a CPU in float32.
        to: The name of the format.
        out: The file or directory to write.
        kind: The number format of the weights; by default the first of the format.
        sources: Validation lines to compare on; by default lines are made up from the vocabulary.
        references: Their translations, to choose the length penalty on.
        verify: Whether the export is loaded and compared.
        force: Whether an earlier export at `out` is replaced.

    Returns:
        The export.

    Raises:
        ConfigError: If the format cannot express the model, or an argument is unknown.
        UserError: If a library is missing, or the export differs from the model too much.
    """
    if to not in FORMATS:
        raise ConfigError(f"unknown format {to!r}; {nearest(to, list(FORMATS))}")
    form = format_of(bundle, to)
    text = check_expressible(bundle, form)
    if references is not None and text.config.model.vocabularies == 1:
        raise ConfigError(
            f"{option('valid-target')} is for translation models; a language model is compared on "
            f"the lines of {option('valid-source')} alone"
        )
    chosen = number_format(form, kind)
    check_place(out, force=force, suffix=form.suffix)
    check_libraries(form, chosen, verify=verify)
    real = real_path(out)
    make_directory(real.parent)
    hidden = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    try:
        with explain_os_errors(out):
            hidden.mkdir()
            search, comparison = _write(text, form, chosen, hidden, sources, references, verify)
            size = sum(each.stat().st_size for each in hidden.rglob("*") if each.is_file())
            move(_only_file(hidden) if form.suffix else hidden, real)
            if form.suffix and comparison is not None:
                _write_comparison(comparison, form, chosen, real.with_name(beside(real.name)))
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Exported(out, to, chosen, size, search, comparison)


def check_libraries(form: Format, kind: str, *, verify: bool) -> None:
    """Check that the libraries of a format are installed.

    Args:
        form: The format.
        kind: The number format of the weights.
        verify: Whether the export will be verified.

    Raises:
        UserError: If one is missing. The message names the extra that installs it.
    """
    to_write = {*form.writes_with, *(() if form.writes_alone else form.modules)}
    if kind != number_format(form, None):
        to_write.update(form.quantises_with)
    needed = to_write | set(form.modules if verify else ())
    missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
    if not missing:
        return
    alone = ""
    if not set(missing) & to_write:
        alone = f", or leave out the verification with {option('no-verify')}"
    raise UserError(
        f"{form.name} needs {' and '.join(missing)}, which is not installed: pip install "
        f"'crosshead[{form.extra}]'{alone}"
    )


def number_format(form: Format, kind: str | None) -> str:
    """Return the number format of the weights of an export.

    Args:
        form: The format.
        kind: The wanted number format; by default the first of the format.

    Raises:
        ConfigError: If the format does not have it.
    """
    if kind is None:
        return next(iter(form.types))
    if kind not in form.types:
        raise ConfigError(
            f"{option('type')}: {form.name} has no number format {kind!r}; "
            f"{nearest(kind, list(form.types))}"
        )
    return kind


def check_place(out: Path, *, force: bool, suffix: str = "") -> None:
    """Check that an export may be written to a place.

    Args:
        out: The place.
        force: Whether an earlier export there is replaced.
        suffix: The suffix that its name needs.

    Raises:
        UserError: If it may not.
    """
    if not out.name.endswith(suffix):
        raise UserError(f"{out}: expected a name that ends in {suffix}; name another place")
    if not force and (out.is_symlink() or out.exists()):
        raise UserError(
            f"{out} exists already; name another place, or replace it with {option('force')}"
        )


def _write(
    bundle: TextBundle,
    form: Format,
    kind: str,
    directory: Path,
    sources: Sequence[str] | None,
    references: Sequence[str] | None,
    verify: bool,
) -> tuple[ChosenSearch, Comparison | None]:
    """Write an export into an empty directory and verify it there."""
    form.write(bundle, kind, directory)
    chosen, comparison = ChosenSearch(form.fixed_search or usual_search(bundle)), None
    if verify:
        foreign = form.load(bundle, directory)
        comparison = compare_export(
            bundle,
            foreign,
            sources,
            every_piece=kind == "float32",
            expected=form.expected and partial(form.expected, bundle, directory),
        )
        check_comparison(comparison, form.types[kind], f"{form.name} {kind}")
        if sources is not None and references is not None:
            chosen = choose_search(bundle, foreign, sources, references, fixed=form.fixed_search)
        if not form.suffix:
            _write_comparison(comparison, form, kind, directory / VERIFICATION)
    form.write_search(bundle, chosen.search, directory)
    return chosen, comparison


def beside(name: str) -> str:
    """Return the name of the file with the differences, beside an export that is one file.

    Args:
        name: The name of the export.
    """
    return f"{name}.{VERIFICATION}"


def _write_comparison(found: Comparison, form: Format, kind: str, path: Path) -> None:
    write_comparison(found, path, format=form.name, type=kind, crosshead=__version__)


def _only_file(directory: Path) -> Path:
    [file] = directory.iterdir()
    return file


def move(hidden: Path, place: Path) -> None:
    """Put a finished export in its place, instead of an earlier one.

    Args:
        hidden: The finished export.
        place: Its place.
    """
    former = place.with_name(f".{place.name}.{os.getpid()}.old")
    if place.exists():
        place.replace(former)
    hidden.replace(place)
    synchronise(place.parent)
    if former.is_dir():
        shutil.rmtree(former)
    else:
        former.unlink(missing_ok=True)
