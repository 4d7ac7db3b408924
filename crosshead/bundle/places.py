"""Places of bundles: names on a hub, file names, and errors for directories without a bundle."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from crosshead.caller import how_to_resume
from crosshead.config import Config
from crosshead.errors import BundleError
from crosshead.system.files import StrPath, real_path
from crosshead.system.stored import packed_names

PREFIX = "hf://"
"""The beginning of the name of a model on a hub."""

_HUB = re.compile("hf:/+", re.IGNORECASE)  # pathlib turns `hf://` into `hf:/`
_ADDRESS = re.compile("https?:/+", re.IGNORECASE)

_SNAPSHOT = re.compile(r"models--(.+)--(.+)/snapshots/([0-9a-f]{40})")


class HubError(BundleError):
    """A model on a hub that cannot be downloaded or uploaded."""


@dataclass(frozen=True)
class HubName:
    """The name of a model on a hub.

    Attributes:
        repository: The repository, as `ORG/NAME`.
        revision: A branch, a tag or a commit; None for the newest commit of the main branch.
    """

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        """Return the name as it is typed."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{PREFIX}{self.repository}{revision}"


class HubPlace(Config):
    """The repository and the commit of a model that was downloaded from a hub."""

    # The repository, as `ORG/NAME`.
    name: str
    # The commit, as 40 hexadecimal digits.
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")

    def __str__(self) -> str:
        """Return the name with the commit, as it can be typed."""
        return f"{PREFIX}{self.name}@{self.commit}"


def hub_name(path: StrPath) -> HubName | None:
    """Return the name of a model on a hub, or None for a path."""
    text = os.fspath(path)
    if _ADDRESS.match(text):
        raise HubError(f"{text[:200]}: is an address; name the model as hf://ORG/NAME")
    found = _HUB.match(text)
    if found is None:
        return None
    repository, _, revision = text[found.end() :].partition("@")
    return HubName(repository, revision or None)


def hub_place(path: StrPath) -> HubPlace | None:
    """Return the repository and the commit of a directory in the hub's cache, or None.

    The cache holds each model as `models--ORG--NAME/snapshots/COMMIT`.
    """
    parts = Path(os.path.abspath(path)).parts[-3:]
    found = _SNAPSHOT.fullmatch("/".join(parts))
    return HubPlace(name=f"{found[1]}/{found[2]}", commit=found[3]) if found else None


def bundle_shown(path: StrPath) -> str:
    """Return the displayed name of a bundle: a path, or the name and the commit on a hub."""
    return str(hub_place(path) or os.fspath(path))


CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

ENGINES = ".engines"
"""The folder beside a bundle in which engines store their forms of its model."""

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
