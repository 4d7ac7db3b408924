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
_PAGE = re.compile(r"[^/]+/([^/?#]+/[^/?#]+)(?:/(?:tree|blob|resolve)/([^/?#]+))?.*")
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REPOSITORY = re.compile(f"{_PART}/{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST = 96

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

    @property
    def is_fixed(self) -> bool:
        """True if the revision is a whole commit hash, whose files never change."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None


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
    if address := _ADDRESS.match(text):
        how = _how_to_name(text[address.end() :])
        raise HubError(f"{text[:200]}: is the address of a page; {how}")
    found = _HUB.match(text)
    if found is None:
        return None
    repository, at, revision = text[found.end() :].partition("@")
    if not at:
        return checked_name(repository)
    return checked_name(repository, revision)


def _how_to_name(place: str) -> str:
    """Return how to name the model of a page, whose address is given without `https://`."""
    page = _PAGE.fullmatch(place)
    if page is None or not _REPOSITORY.fullmatch(page[1]):
        return "name the model as hf://ORG/NAME"
    return f"name the model as {HubName(page[1], page[2])}"


def checked_name(repository: str, revision: str | None = None) -> HubName:
    """Return the name of a repository and a revision."""
    name = HubName(repository, revision)
    wrong = len(repository) > _LONGEST or not _REPOSITORY.fullmatch(repository)
    if wrong or "--" in repository or ".." in repository:
        raise HubError(
            f"{str(name)[:200]}: {repository[:100]!r} is no repository; expected ORG/NAME of "
            "letters, digits, `-`, `_` and `.`, such as hf://anna/en-de"
        )
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise HubError(
            f"{str(name)[:200]}: {revision[:100]!r} is no revision; expected a branch, a tag or a "
            "commit, such as hf://anna/en-de@main"
        )
    return name


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
