"""Download models from a hub into its cache, which `huggingface_hub` keeps.

A bundle is downloaded by its `config.json`: the file names the other files with their sizes and
checksums, and nothing else of the repository is downloaded. Each new file is compared with its
checksum. The weights continue where an interrupted download ended.
"""

import fcntl
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from crosshead.bundle.checksums import FileChecksum, Manifest
from crosshead.bundle.config_file import read_settings
from crosshead.bundle.foreign import content_of, foreign_models, why_not_a_bundle
from crosshead.bundle.hub_client import (
    cache_shown,
    hub_api,
    hub_client,
    hub_endpoint,
    hub_errors,
    is_unreachable,
    quiet,
    reason_of,
)
from crosshead.bundle.hub_names import HubError, HubName
from crosshead.bundle.places import CARD, CONFIG, WEIGHTS
from crosshead.errors import BundleError, DamagedBundle
from crosshead.system.progress import Display

logger = logging.getLogger(__name__)

AGAIN = "run the command again, which continues where this download ended"
"""The advice after an interrupted download."""

_SHOWN_AFTER = 1.0
"""Seconds after which a download shows its progress."""


def download_bundle(name: HubName, allowed: Collection[str], display: Display) -> Path:
    """Return the directory of a bundle in the hub's cache, after downloading what is missing.

    If the hub cannot be reached, or `HF_HUB_OFFLINE` is set, an earlier download is used.

    Args:
        name: The model.
        allowed: The names of all files that a bundle may have. No other file is downloaded.
        display: Shows the progress of the weights.

    Raises:
        HubError: If the hub has no such bundle or does not give it, a file differs from its
            checksum, or the hub cannot be reached and there is no earlier download.
    """
    hub = hub_client()
    with hub_errors(name, AGAIN), quiet():
        if name.is_fixed and (found := _cached_file(name, CONFIG)) and not _missing(found.parent):
            return found.parent
        info, why = _asked(name)
        if info is None:
            return _cached_bundle(name, why)
        listed = [each.rfilename for each in info.siblings or ()]
        if CONFIG not in listed:
            _refuse_foreign(name, listed, {})
            raise HubError(
                f"{name}: not a bundle: the repository has no {CONFIG}; `crosshead push` uploads a "
                "bundle, and `crosshead import` reads models of other toolkits"
            )
        config = Path(hub.hf_hub_download(name.repository, CONFIG, revision=name.revision))
        _refuse_foreign(name, listed, content_of(config.parent)[1])
        manifest = _manifest_of(name, config)
        wanted = [*(manifest.files or listed)]
        for file in wanted:
            if file in allowed and file != CONFIG:
                _download(name, config.parent, file, manifest, display)
            elif file != CONFIG and manifest.files:
                raise HubError(
                    f"{name}: {CONFIG} names {file[:60]!a}, which is no file of a bundle; nothing "
                    "of it was loaded"
                )
        return config.parent


def download_files(name: HubName, choose: Callable[[Sequence[str]], Sequence[str]]) -> Path:
    """Return the directory of a repository's files in the hub's cache, after downloading them.

    Args:
        name: The model.
        choose: Returns the names of the files to download, among all names in the repository.

    Raises:
        HubError: If the hub does not give the files, or cannot be reached and there is no earlier
            download.
    """
    hub = hub_client()
    with hub_errors(name, AGAIN), quiet():
        info, why = _asked(name)
        if info is None:
            try:
                return Path(
                    hub.snapshot_download(
                        name.repository, revision=name.revision, local_files_only=True
                    )
                )
            except hub.errors.LocalEntryNotFoundError:
                raise _not_cached(name, why) from None
        wanted = choose([each.rfilename for each in info.siblings or ()])
        if not wanted:
            raise HubError(f"{name}: none of its files belongs to a model that can be imported")
        # The first download stores which commit the revision is, for use without the hub.
        first = Path(hub.hf_hub_download(name.repository, wanted[0], revision=name.revision))
        for file in wanted[1:]:
            hub.hf_hub_download(name.repository, file, revision=first.parent.name)
        return first.parent


def _asked(name: HubName) -> tuple[Any, str]:
    """Ask the hub about a model.

    Returns:
        The client's description of the repository, or None and a clause that says why the hub
        cannot be asked.
    """
    hub = hub_client()
    if hub.constants.HF_HUB_OFFLINE:
        return None, "HF_HUB_OFFLINE is set: unset it"
    try:
        return hub_api().model_info(name.repository, revision=name.revision), ""
    except Exception as error:
        if not is_unreachable(error):
            raise
        why = f"{hub_endpoint()} cannot be reached ({reason_of(error)})"
        if _cached_file(name, CONFIG):
            logger.info("%s: %s; using the earlier download", name, why)
        return None, f"{why}: connect to the network"


def _cached_file(name: HubName, file: str) -> Path | None:
    """Return a file of the cache, or None. The hub is not asked."""
    found = hub_client().try_to_load_from_cache(name.repository, file, revision=name.revision)
    return Path(found) if isinstance(found, str) else None


def _cached_bundle(name: HubName, why: str) -> Path:
    """Return a bundle of the cache; raise `HubError` if it is not there as a whole."""
    config = _cached_file(name, CONFIG)
    if config is None:
        raise _not_cached(name, why)
    _refuse_foreign(name, *content_of(config.parent))
    if missing := _missing(config.parent):
        raise HubError(
            f"{name}: {', '.join(missing)} was not downloaded before, and {why}, and run the "
            "command again"
        )
    return config.parent


def _not_cached(name: HubName, why: str) -> HubError:
    return HubError(
        f"{name}: is not in the cache {cache_shown()}, and {why}, or name a directory in its place"
    )


def _missing(directory: Path) -> list[str]:
    """Return the names of the files that a bundle of the cache lacks, without the card."""
    try:
        _, manifest = read_settings(directory)
    except BundleError:
        return [CONFIG]
    needed = [file for file in manifest.files or (WEIGHTS,) if file != CARD]
    return [file for file in needed if not (directory / file).is_file()]


def _refuse_foreign(name: HubName, files: Collection[str], config: Mapping[str, Any]) -> None:
    """Raise `HubError` if the files of a repository are those of a foreign model."""
    if why := why_not_a_bundle(str(name), foreign_models(files, config)):
        raise HubError(why)


def _manifest_of(name: HubName, config: Path) -> Manifest:
    """Return the checksums in a downloaded `config.json`, which is forgotten if it is damaged."""
    try:
        return read_settings(config.parent)[1]
    except DamagedBundle as error:
        _forget(config)
        raise _damaged(name, CONFIG, error.found) from None


def _download(
    name: HubName, directory: Path, file: str, manifest: Manifest, display: Display
) -> None:
    """Download a file into the cache, and compare it with its checksum.

    A file that is there stays: loading a bundle compares it. The card may be missing or edited.
    """
    if (directory / file).is_file():
        return
    hub, commit = hub_client(), directory.name
    try:
        if file == WEIGHTS and manifest.files:
            _download_weights(name, directory, manifest.files[WEIGHTS], display)
        hub.hf_hub_download(name.repository, file, revision=commit)
    except hub.errors.RemoteEntryNotFoundError:
        if file == CARD:
            return
        raise HubError(
            f"{name}: {CONFIG} names {file}, which the repository does not have; ask its owner to "
            "push the bundle again"
        ) from None
    if file != CARD:
        try:
            manifest.check_sizes([file])
            manifest.check(file)
        except DamagedBundle as error:
            _forget(directory / file)
            raise _damaged(name, file, error.found) from None


def _forget(path: Path) -> None:
    """Remove a file from the cache, so that the next download begins anew."""
    for each in (os.path.realpath(path), path):
        Path(each).unlink(missing_ok=True)


def _damaged(name: HubName, file: str, found: str) -> HubError:
    return HubError(
        f"{name}: {file}: {found}; the file was removed: run the command again, and if the message "
        "stays, ask the owner to push the bundle again"
    )


def _download_weights(
    name: HubName, directory: Path, expected: FileChecksum, display: Display
) -> None:
    """Download the weights to their place among the cache's blobs, where the client finds them.

    The client itself begins an interrupted file anew. This function keeps what has arrived beside
    the place, and asks the server for the rest.
    """
    hub = hub_client()
    url = hub.hf_hub_url(name.repository, WEIGHTS, revision=directory.name)
    found = hub.get_hf_file_metadata(url)
    if found.size is not None and found.size != expected.bytes:
        raise HubError(
            f"{name}: {WEIGHTS} has {found.size:,} bytes, and {CONFIG} says {expected.bytes:,}: it "
            "belongs to another bundle; ask the owner to push the bundle again"
        )
    if not re.fullmatch(r"[0-9a-zA-Z]+", found.etag or ""):
        return  # without a name for the blob, the client downloads the file
    headers = hub.utils.build_hf_headers(library_name="crosshead")
    headers["Accept-Encoding"] = "identity"
    if _host(found.location) != _host(url):
        headers.pop("authorization", None)  # the token is for the hub alone
    blob = directory.parent.parent / "blobs" / str(found.etag)
    partial = blob.with_name(f"{found.etag}.crosshead.incomplete")
    with partial.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another process may be downloading it
        if not blob.exists():
            if file.tell() > expected.bytes:
                file.truncate(0)
                file.seek(0)
            counted = _Counted(file, expected.bytes, f"{name}: {WEIGHTS}", display)
            hub.file_download.http_get(
                found.location,
                counted,
                resume_size=file.tell(),
                headers=headers,
                expected_size=expected.bytes,
            )
            file.flush()
            if _sha256(partial) != expected.sha256:
                file.truncate(0)
                raise _damaged(name, WEIGHTS, "its SHA-256 is not the one in config.json")
            partial.replace(blob)
            return
    partial.unlink(missing_ok=True)


class _Counted:
    """A file that shows how much of it is written.

    Args:
        file: The file, opened for appending.
        size: Its whole size in bytes.
        title: The name of the file, for the display.
        display: Shows the progress.
    """

    def __init__(self, file: BinaryIO, size: int, title: str, display: Display) -> None:
        self._file, self._size, self._title, self._display = file, size, title, display
        self._begun = time.monotonic()

    def write(self, data: bytes) -> int:
        """Append to the file, and keep the bytes even if the process is killed."""
        count = self._file.write(data)
        self._file.flush()
        if time.monotonic() - self._begun > _SHOWN_AFTER and self._display.due():
            done = self._file.tell()
            megabytes = f"{done / 1e6:.1f} of {self._size / 1e6:.1f} MB"
            self._display.advance(done / max(1, self._size), f"{self._title}, {megabytes}")
        return count

    def tell(self) -> int:
        """Return the number of bytes in the file."""
        return self._file.tell()

    def seek(self, place: int) -> int:
        """Move to a place in the file."""
        return self._file.seek(place)

    def truncate(self) -> int:
        """Cut the file at the current place."""
        return self._file.truncate()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _host(url: str) -> str:
    return re.sub(r"^(\w+://[^/]*).*", r"\1", url)
