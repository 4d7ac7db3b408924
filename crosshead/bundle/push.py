"""Upload a bundle to a hub: `crosshead push`."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crosshead import __version__
from crosshead.bundle.config_file import read_settings
from crosshead.bundle.files import bundle_files, check_as_written
from crosshead.bundle.hub_client import (
    LOG_IN,
    hub_api,
    hub_client,
    hub_endpoint,
    hub_errors,
    quiet,
    without_token,
)
from crosshead.bundle.hub_names import HubError, HubName
from crosshead.bundle.places import CONFIG
from crosshead.errors import BundleError
from crosshead.system.files import explain_os_errors
from crosshead.system.stored import open_stored, stored_size

AGAIN = "run the command again, which sends only what is missing"
"""The advice after an interrupted upload."""


@dataclass(frozen=True)
class BundleUpload:
    """The files that go to a repository.

    Attributes:
        directory: The directory of the bundle, or a packed bundle.
        name: The repository and the branch.
        sizes: The size of each file in bytes, by name.
    """

    directory: Path
    name: HubName
    sizes: dict[str, int]

    @property
    def branch(self) -> str:
        """The branch that gets the files."""
        return self.name.revision or "main"


@dataclass(frozen=True)
class Pushed:
    """The end of an upload.

    Attributes:
        address: The page of the model.
        commit: The commit that holds the files.
        is_new: False if the repository held the same files before.
        warnings: Warnings of the hub, such as those about the card.
    """

    address: str
    commit: str
    is_new: bool
    warnings: list[str]


def plan_upload(directory: Path, name: HubName) -> BundleUpload:
    """Check a bundle and return the files that go to a hub. Nothing is sent.

    Other files of a run stay at home: checkpoints, the log, lines that were left out.

    Args:
        directory: The directory of the bundle, or a packed bundle.
        name: The repository, and the branch as its revision.

    Returns:
        The files, by name, with their sizes.

    Raises:
        BundleError: If `directory` is not a bundle, or a file was changed after it was written. The
            card may have been edited.
    """
    files, listed = bundle_files(directory), read_settings(directory)[1].files
    for file in files:
        if listed and file not in (CONFIG, *listed):
            raise BundleError(
                f"{directory}: {file[:60]!a} in it is no file of the bundle; nothing was uploaded"
            )
    check_as_written(directory, "nothing was uploaded")
    return BundleUpload(directory, name, {file: stored_size(directory / file) for file in files})


def push(upload: BundleUpload, *, private: bool = False, bars: bool = False) -> Pushed:
    """Upload the files of a bundle in one commit, and compare them with what the hub then holds.

    The repository and the branch are made if they do not exist. The files of an interrupted upload
    that have arrived are not sent again.

    Args:
        upload: The files, from `plan_upload`.
        private: True to make a new repository private.
        bars: True to show the progress of large files on standard error.

    Returns:
        The commit that holds the files, and the address of the model.

    Raises:
        HubError: If there is no token, the hub refuses the upload or cannot be reached, or the
            repository exists and is public although `private` is True.
    """
    name, hub, api = upload.name, hub_client(), hub_api()
    if without_token():
        raise HubError(f"{name}: uploading needs a token; {LOG_IN} that may write")
    with _unpacked(upload) as place, hub_errors(name, AGAIN), quiet(bars=bars) as warnings:
        api.create_repo(name.repository, private=private or None, exist_ok=True)
        before = api.model_info(name.repository)
        if private and not before.private:
            raise HubError(
                f"{name}: exists and is public; leave out --private, or make it private in its "
                "settings first; nothing was uploaded"
            )
        if name.revision is not None and name.revision != "main":
            api.create_branch(name.repository, branch=name.revision, exist_ok=True)
            before = api.model_info(name.repository, revision=name.revision)
        added = [hub.CommitOperationAdd(file, str(place / file)) for file in upload.sizes]
        done = api.create_commit(
            name.repository,
            added,
            commit_message=f"Upload a bundle with crosshead {__version__}",
            revision=name.revision,
        )
        _compare(upload, done.oid)
    address = f"{hub_endpoint()}/{name.repository}"
    return Pushed(address, done.oid, done.oid != before.sha, warnings)


@contextlib.contextmanager
def _unpacked(upload: BundleUpload) -> Iterator[Path]:
    """Yield the directory of the files, which are copied out of a packed bundle.

    Raises:
        UserError: If there is no room for them.
    """
    if upload.directory.is_dir():
        yield upload.directory
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in upload.sizes:
            with (
                explain_os_errors(Path(scratch)),
                open_stored(upload.directory / name) as (file, _),
                (Path(scratch) / name).open("wb") as out,
            ):
                shutil.copyfileobj(file, out, 1 << 20)
        yield Path(scratch)


def _compare(upload: BundleUpload, commit: str) -> None:
    """Compare the checksums of the files on the hub with the files here.

    Raises:
        HubError: If one differs or is missing.
    """
    there = {
        each.path: each
        for each in hub_api().get_paths_info(
            upload.name.repository, [*upload.sizes], revision=commit
        )
    }
    for file, size in upload.sizes.items():
        with open_stored(upload.directory / file) as (stored, _):
            if (found := there.get(file)) is None:
                same = False
            elif found.lfs is not None:
                same = found.lfs.sha256 == hashlib.file_digest(stored, "sha256").hexdigest()
            else:  # git's name of the contents
                content = b"blob %d\0" % size + stored.read()
                same = found.blob_id == hashlib.sha1(content, usedforsecurity=False).hexdigest()
        if not same:
            raise HubError(
                f"{upload.name}: {file} did not arrive as it is here (commit {commit}); {AGAIN}"
            )
