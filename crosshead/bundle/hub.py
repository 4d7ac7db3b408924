"""Download models from a hub into the cache of `huggingface_hub`, by its own functions.

Of a bundle, only files are downloaded that its `config.json` names and that a bundle can have.
Loading the bundle compares them with their checksums.
"""

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosshead.bundle.config_file import read_settings
from crosshead.bundle.foreign import content_of, foreign_models, why_not_a_bundle
from crosshead.bundle.places import CARD, CONFIG, HubError, HubName
from crosshead.errors import UserError

logger = logging.getLogger(__name__)


def download_bundle(name: HubName, allowed: Collection[str]) -> Path:
    """Return the directory of a bundle in the hub's cache, after downloading what is missing.

    If the hub cannot be reached, or `HF_HUB_OFFLINE` is set, an earlier download is used.
    """
    config = dict[str, object]()
    with hub_errors(name), quiet():
        listed = {*_listed(name)}
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
        wanted = {*allowed} & {*(files or listed)} - {CONFIG} - ({CARD} - listed)
        for file in sorted(wanted):
            _download(commit, file)
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


AGAIN = "run the command again, which transfers only the files that are missing"
"""The advice after an interruption."""

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token"


def hub_client() -> Any:
    """Return the module `huggingface_hub`."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError:
        raise UserError(
            "models on a hub need huggingface_hub, which is not installed; install it with "
            "`pip install 'crosshead[hub]'`"
        ) from None
    return huggingface_hub


def hub_api() -> Any:
    """Return the client's functions of the hub, which name crosshead to the server."""
    from crosshead.version import __version__

    return hub_client().HfApi(library_name="crosshead", library_version=__version__)


def hub_endpoint() -> str:
    """Return the address of the hub, which `HF_ENDPOINT` sets."""
    return str(hub_client().constants.ENDPOINT)


@contextlib.contextmanager
def quiet() -> Iterator[list[str]]:
    """Keep the messages of the client off the screen in the block, and its bars off a file."""
    utils, said = hub_client().utils, list[str]()
    level, log = utils.logging.get_verbosity(), utils.logging
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    with contextlib.ExitStack() as stack, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not at_terminal and not utils.are_progress_bars_disabled():
            utils.disable_progress_bars()
            stack.callback(utils.enable_progress_bars)
        log.set_verbosity(log.CRITICAL)
        stack.callback(log.set_verbosity, level)
        yield said
    # Other categories are for the programmers of the client, such as those of deprecated arguments.
    for_users = [each for each in caught if issubclass(each.category, UserWarning)]
    said += [" ".join(str(each.message).split()) for each in for_users]


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error means that the hub could not be asked, or could not answer."""
    response = getattr(error, "response", None)
    if response is not None:
        return int(response.status_code) >= 500 or response.status_code == 429
    # The client's own error without a response is that of the library that sends the requests.
    return isinstance(error, hub_client().errors.HTTPError | ConnectionError | TimeoutError)


def reason_of(error: BaseException) -> str:
    """Return what the client says about an error, in one line."""
    said = getattr(error, "server_message", None) or str(error)
    response = getattr(error, "response", None)
    status = "" if response is None else f"HTTP {response.status_code}: "
    return status + (" ".join(said.split())[:200] or type(error).__name__)


@contextlib.contextmanager
def hub_errors(name: HubName) -> Iterator[None]:
    """Turn errors of the client in the block into errors of one line."""
    try:
        yield
    except Exception as error:
        said = _explained(name, error)
        if said is None:
            raise
        raise HubError(f"{name}: {said}") from None


def _explained(name: HubName, error: BaseException) -> str | None:
    """Return what to say about an error of the client; None for other errors."""
    errors, hub = hub_client().errors, hub_endpoint()
    is_lost = isinstance(error, errors.LocalEntryNotFoundError)
    cause = (error.__cause__ if is_lost or isinstance(error, RuntimeError) else None) or error
    if is_lost:
        return (
            f"is not in the cache {hub_client().constants.HF_HUB_CACHE}, and {hub} cannot be "
            f"reached ({reason_of(cause)}); connect to the network, or name a directory in its "
            "place"
        )
    if is_unreachable(cause):
        return f"{hub} cannot be reached, or broke off ({reason_of(cause)}); {AGAIN}"
    # A `ValueError` is, for example, about a card that the hub cannot read.
    if isinstance(error, errors.HfHubHTTPError | ValueError):
        response = getattr(error, "response", None)
        place = hub if response is None else str(response.url)[:200]
        return f"{place} says {reason_of(error)!r}; check the name, or {LOG_IN} that has the right"
    return None
