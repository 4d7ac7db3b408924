"""Download models from a hub into the cache of `huggingface_hub`, by its own functions.

Of a bundle, only files are downloaded that its `config.json` names and that a bundle can have.
Loading the bundle compares them with their checksums.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from crosshead.bundle.config_file import read_settings
from crosshead.bundle.foreign import content_of, foreign_models, why_not_a_bundle
from crosshead.bundle.hub_client import (
    hub_api,
    hub_client,
    hub_endpoint,
    hub_errors,
    is_unreachable,
    quiet,
    reason_of,
)
from crosshead.bundle.hub_names import HubError, HubName
from crosshead.bundle.places import CARD, CONFIG

logger = logging.getLogger(__name__)


def download_bundle(name: HubName, allowed: Collection[str]) -> Path:
    """Return the directory of a bundle in the hub's cache, after downloading what is missing.

    If the hub cannot be reached, or `HF_HUB_OFFLINE` is set, an earlier download is used.
    """
    hub, config = hub_client(), dict[str, object]()
    with hub_errors(name), quiet():
        kept = hub.try_to_load_from_cache(name.repository, CONFIG, revision=name.revision)
        listed = {CONFIG} if name.is_fixed and isinstance(kept, str) else {*_listed(name)}
        if CONFIG in listed:
            directory = _download(name, CONFIG).parent
            here, config = content_of(directory)
            listed |= here
        if why := why_not_a_bundle(str(name), foreign_models(listed, config)):
            raise HubError(why)
        if CONFIG not in listed:
            raise HubError(
                f"{name}: not a bundle: the repository has no {CONFIG}; `crosshead push` uploads a "
                "bundle, and `crosshead import` reads models of other toolkits"
            )
        commit, files = replace(name, revision=directory.name), read_settings(directory)[1].files
        for file in sorted({*allowed} & {*(files or listed)} - {CONFIG}):
            try:
                _download(commit, file)
            except hub.errors.EntryNotFoundError:
                if file != CARD:
                    raise
        return directory


def download_files(name: HubName, choose: Callable[[Sequence[str]], Sequence[str]]) -> Path:
    """Return the directory of a repository's files in the hub's cache, after downloading them."""
    with hub_errors(name), quiet():
        wanted = choose(_listed(name))
        if not wanted:
            raise HubError(f"{name}: none of its files belongs to a model that can be imported")
        # The first download stores which commit the revision is, for use without the hub.
        directory = _download(name, wanted[0]).parent
        for file in wanted[1:]:
            _download(replace(name, revision=directory.name), file)
        return directory


def _listed(name: HubName) -> list[str]:
    """Return the names of a model's files on the hub; of an earlier download if it is away."""
    hub = hub_client()
    try:
        info = hub_api().model_info(name.repository, revision=name.revision)
    except Exception as error:
        if not is_unreachable(error):
            raise
        try:
            place = hub.snapshot_download(
                name.repository, revision=name.revision, local_files_only=True
            )
        except hub.errors.LocalEntryNotFoundError as lost:
            raise lost from error
        if not hub.constants.HF_HUB_OFFLINE:
            why = f"{hub_endpoint()} cannot be reached ({reason_of(error)})"
            logger.info("%s: %s; using the earlier download", name, why)
        return sorted(content_of(Path(place))[0])
    return [each.rfilename for each in info.siblings or ()]


def _download(name: HubName, file: str) -> Path:
    """Return a file of the cache, after downloading it if it is missing."""
    return Path(hub_client().hf_hub_download(name.repository, file, revision=name.revision))
