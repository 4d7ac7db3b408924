"""The client of a hub, `huggingface_hub`: its import, its messages, and its errors in one line."""

import contextlib
import errno
import warnings
from collections.abc import Iterator
from typing import Any

from crosshead.bundle.hub_names import HubError, HubName
from crosshead.errors import UserError

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token"


def hub_client() -> Any:
    """Return the module `huggingface_hub`.

    Raises:
        UserError: If it is not installed.
    """
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.file_download
        import huggingface_hub.utils
    except ImportError:
        raise UserError(
            "models on a hub need huggingface_hub, which is not installed; install it with "
            "`pip install 'crosshead[hub]'`"
        ) from None
    return huggingface_hub


def hub_api() -> Any:
    """Return the client's functions of the hub, which name crosshead to the server."""
    from crosshead import __version__

    return hub_client().HfApi(library_name="crosshead", library_version=__version__)


def hub_endpoint() -> str:
    """Return the address of the hub, which `HF_ENDPOINT` sets."""
    return str(hub_client().constants.ENDPOINT)


@contextlib.contextmanager
def quiet(*, bars: bool = False) -> Iterator[list[str]]:
    """Keep the messages of the client off the screen in the block.

    Args:
        bars: True to leave its progress bars on.

    Yields:
        A list, which holds the client's warnings for users after the block.
    """
    utils, said = hub_client().utils, list[str]()
    level, log = utils.logging.get_verbosity(), utils.logging
    with contextlib.ExitStack() as stack, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not bars and not utils.are_progress_bars_disabled():
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
    refused = hub_client().errors.HfHubHTTPError
    if isinstance(error, refused):
        return int(error.response.status_code) >= 500
    # Its bases are the errors of the library that sends the requests, and OSError.
    return isinstance(error, refused.__bases__) and not _is_of_disk(error)


def reason_of(error: BaseException) -> str:
    """Return why the hub could not be asked, as a clause."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    return " ".join(str(error).split())[:200] or type(error).__name__


@contextlib.contextmanager
def hub_errors(name: HubName, again: str = "try again later") -> Iterator[None]:
    """Turn errors of the client in the block into errors of one line.

    Args:
        name: The model.
        again: The advice if the connection fails.

    Yields:
        Nothing.

    Raises:
        HubError: If the client fails.
    """
    errors = hub_client().errors
    try:
        yield
    except errors.GatedRepoError:
        where = f"{hub_endpoint()}/{name.repository}"
        raise HubError(
            f"{name}: its owner asks for consent first; accept the terms at {where}, and {LOG_IN}"
        ) from None
    except errors.RepositoryNotFoundError:
        raise HubError(
            f"{name}: {hub_endpoint()} has no such model, or you have no right to read it; check "
            f"the name, or {LOG_IN} that may read it"
        ) from None
    except errors.RevisionNotFoundError:
        raise HubError(
            f"{name}: there is no revision {name.revision or 'main'!r}; name a branch, a tag or a "
            f"commit of {hub_endpoint()}/{name.repository}"
        ) from None
    except errors.EntryNotFoundError as error:
        raise HubError(f"{name}: a file is missing ({reason_of(error)})") from None
    except errors.HfHubHTTPError as error:
        raise _refused(name, error, again) from None
    except errors.HFValidationError as error:
        raise HubError(f"{name}: {reason_of(error)}; check the name") from None
    except ValueError as error:  # such as a card that the hub cannot read
        raise HubError(f"{name}: {reason_of(error)}; nothing was changed") from None
    except (RuntimeError, *errors.HfHubHTTPError.__bases__) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) else None
        if isinstance(cause, errors.HfHubHTTPError):
            raise _refused(name, cause, again) from None
        if _is_of_disk(error):
            raise
        raise HubError(
            f"{name}: {hub_endpoint()} cannot be reached, or broke off "
            f"({reason_of(cause or error)}); {again}"
        ) from None


def _refused(name: HubName, error: Any, again: str) -> HubError:
    """Return the error for a request that the server refused."""
    status = error.response.status_code
    if status == 401:
        return HubError(
            f"{name}: {hub_endpoint()} does not accept the token; {LOG_IN} that it knows"
        )
    if status == 403:
        return HubError(
            f"{name}: the token has no right to do this; {LOG_IN} that may write to "
            f"{name.repository.partition('/')[0]}"
        )
    said = " ".join(str(error.server_message or "").split())[:200]
    what = f"HTTP {status}{': ' + said if said else ''}"
    advice = again if status >= 500 or status == 429 else "check the name and the files"
    return HubError(f"{name}: {hub_endpoint()} answers {what}; {advice}")


def _is_of_disk(error: BaseException) -> bool:
    """Return whether an error is of this machine's files, such as a full disk."""
    if not isinstance(error, OSError) or isinstance(error, ConnectionError | TimeoutError):
        return False
    full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
    return error.filename is not None or error.errno in full


def without_token() -> bool:
    """Return whether no token is known, by `HF_TOKEN` or by `hf auth login`."""
    return hub_client().get_token() is None


def cache_shown() -> str:
    """Return the directory of the hub's cache, which `HF_HOME` and `HF_HUB_CACHE` set."""
    return str(hub_client().constants.HF_HUB_CACHE)
