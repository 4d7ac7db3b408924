"""Upload a bundle to a hub: `crosshead push`."""

import contextlib
from pathlib import Path
from typing import NamedTuple

from crosshead.bundle.config_file import read_settings
from crosshead.bundle.files import bundle_files, check_as_written
from crosshead.bundle.hub import (
    LOG_IN,
    hub_api,
    hub_client,
    hub_endpoint,
    hub_errors,
    quiet,
)
from crosshead.bundle.places import CONFIG, HubError, HubName
from crosshead.errors import BundleError
from crosshead.system.stored import open_stored, stored_size
from crosshead.version import __version__


class Pushed(NamedTuple):
    """The end of an upload."""

    sizes: dict[str, int]
    """The size of each file in bytes, by name."""
    commit: str
    """The commit that holds the files."""
    is_new: bool
    """False if the repository held the same files before."""
    warnings: list[str]
    """Warnings of the hub, such as those about the card."""


def hub_page(name: HubName) -> str:
    """Return the address of a model's page."""
    return f"{hub_endpoint()}/{name.repository}"


def files_to_push(directory: Path) -> dict[str, int]:
    """Check a bundle and return the files that go to a hub. Nothing is sent.

    Other files of a run stay at home: checkpoints, the log, lines that were left out.
    """
    files, listed = bundle_files(directory), read_settings(directory)[1].files
    for file in files:
        if listed and file not in (CONFIG, *listed):
            raise BundleError(
                f"{directory}: {file[:60]!a} in it is no file of the bundle; nothing was uploaded"
            )
    check_as_written(directory, "nothing was uploaded")
    return {file: stored_size(directory / file) for file in files}


def push(directory: Path, name: HubName, *, private: bool = False) -> Pushed:
    """Upload the files of a bundle in one commit.

    The repository and the branch are made if they do not exist. The files of an interrupted upload
    that have arrived are not sent again.
    """
    sizes, hub, api = files_to_push(directory), hub_client(), hub_api()
    if hub.get_token() is None:
        raise HubError(f"{name}: uploading needs a token; {LOG_IN} that may write")
    with contextlib.ExitStack() as stack, hub_errors(name), quiet() as warnings:
        api.create_repo(name.repository, private=private or None, exist_ok=True)
        if private and not api.model_info(name.repository).private:
            raise HubError(
                f"{name}: exists and is public; leave out --private, or make it private in its "
                "settings first; nothing was uploaded"
            )
        if name.revision not in (None, "main"):
            api.create_branch(name.repository, branch=name.revision, exist_ok=True)
        before = api.model_info(name.repository, revision=name.revision)
        # The client sends only the new parts of a file that it opens itself.
        opened = {
            file: str(directory / file)
            if directory.is_dir()
            else stack.enter_context(open_stored(directory / file))[0]
            for file in sizes
        }
        done = api.create_commit(
            name.repository,
            [hub.CommitOperationAdd(*each) for each in opened.items()],
            commit_message=f"Upload a bundle with crosshead {__version__}",
            revision=name.revision,
        )
    return Pushed(sizes, done.oid, done.oid != before.sha, warnings)
