"""Where bundles and runs stand, and what is said of a place that holds none."""

import shlex
from pathlib import Path

from crosshead.errors import BundleError
from crosshead.system.files import real_path
from crosshead.system.stored import packed_names

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

RECIPE, CHECKPOINTS = "recipe.toml", "checkpoints"
"""Entries of a run directory before it holds a bundle."""


def kept_beside(out: Path) -> Path:
    """Where the run that stood in `out` is kept until the one that replaces it has a bundle."""
    real = real_path(out)
    return real.with_name(f".{real.name}.replaced")


def where_bundle_is_kept(out: Path) -> str:
    """A clause for who finds nothing in `out`: where an earlier bundle is kept, if one is."""
    kept = kept_beside(out)
    if not (kept / CONFIG).is_file():
        return ""
    return f"; an earlier run, with its bundle, is kept in {kept}"


def check_place(directory: Path) -> list[str]:
    """Refuse what cannot be a bundle; the names of the files of one that is packed."""
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


def how_to_resume(directory: Path, program: str = "crosshead") -> str:
    """Return the command that goes on with the run in a directory, and writes its bundle.

    Args:
        directory: The run.
        program: What to type for `crosshead`.
    """
    return f"{program} train --resume --out {shlex.quote(str(directory))}"


def _what_else(directory: Path) -> str:
    """Return a clause that says what a directory without a configuration is."""
    if is_run(directory):
        return (
            "a training run that has no bundle yet: it is going on or was interrupted; to go on "
            f"with it: {how_to_resume(directory)}{where_bundle_is_kept(directory)}"
        )
    return (
        f"not a bundle: it holds no {CONFIG} (a bundle holds {CONFIG}, {WEIGHTS}, its tokenizer "
        f"and {CARD}; `crosshead train --out` writes one){where_bundle_is_kept(directory)}"
    )
