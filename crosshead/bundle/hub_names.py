"""Names of models on a hub, such as `hf://ORG/NAME@revision`, and places of downloaded copies."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from crosshead.config import Config
from crosshead.errors import BundleError
from crosshead.system.files import StrPath

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
