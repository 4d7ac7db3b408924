"""File names of bundles and runs, and errors for directories without a bundle."""

from pathlib import Path

from crosshead.caller import how_to_resume
from crosshead.errors import BundleError
from crosshead.system.files import real_path
from crosshead.system.stored import packed_names

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

RECIPE, CHECKPOINTS = "recipe.toml", "checkpoints"
"""Entries of a run directory before it holds a bundle."""


def earlier_run_path(out: Path) -> Path:
    """Return the directory that keeps an earlier run while its replacement has no bundle."""
    real = real_path(out)
    return real.with_name(f".{real.name}.replaced")


def where_bundle_is_kept(out: Path) -> str:
    """Return a clause that names the place of an earlier bundle of `out`, or an empty string."""
    kept = earlier_run_path(out)
    if not (kept / CONFIG).is_file():
        return ""
    return f"; an earlier run, with its bundle, is kept in {kept}"


def check_place(directory: Path) -> list[str]:
    """Check that a path may be a bundle."""
    if not directory.exists():
        raise BundleError(f"{directory}: no such directory; expected a bundle")
    if not directory.is_dir():
        return packed_names(directory)
    if not (directory / CONFIG).exists():
        raise BundleError(f"{directory}: {_what_else(directory)}")
    return []


def is_run(directory: Path) -> bool:
    """Return whether a directory holds a run that can be continued."""
    return all((directory / name).exists() for name in (RECIPE, CHECKPOINTS))


def _what_else(directory: Path) -> str:
    """Return a clause that describes a directory without a configuration."""
    if is_run(directory) and (directory / WEIGHTS).is_file():
        again = how_to_resume(directory)
        return f"{CONFIG} is missing; to write the bundle of this run again: {again}"
    if is_run(directory):
        return (
            "a training run that has no bundle yet: it is still running or was interrupted; to "
            f"resume it: {how_to_resume(directory)}{where_bundle_is_kept(directory)}"
        )
    return (
        f"not a bundle: it has no {CONFIG} (a bundle has {CONFIG}, {WEIGHTS}, its tokenizer "
        f"and {CARD}; `crosshead train --out` writes one){where_bundle_is_kept(directory)}"
    )
