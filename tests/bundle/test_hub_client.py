import errno
import warnings

import pytest

from crosshead.bundle.hub_client import hub_errors, is_unreachable, quiet
from crosshead.bundle.hub_names import HubError, HubName
from tests.hub_server import Hub

NAME = HubName("anna/en-de", "v1")


def test_a_refused_connection_is_one_line_with_advice(hub: Hub) -> None:
    with (
        pytest.raises(
            HubError, match=r"^hf://anna/en-de@v1: .*cannot be reached.*; run the command again"
        ) as error,
        hub_errors(NAME),
    ):
        raise ConnectionResetError("reset\nby peer")
    assert "\n" not in str(error.value)


def test_a_full_disk_stays_what_it_is(hub: Hub) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/cache/x")
    assert not is_unreachable(full)
    with pytest.raises(OSError, match="No space left"), hub_errors(NAME):
        raise full


def test_a_mistake_of_the_program_stays_what_it_is(hub: Hub) -> None:
    with pytest.raises(TypeError), hub_errors(NAME):
        raise TypeError
    assert not is_unreachable(TypeError())


def test_messages_of_the_client_are_kept_off_the_screen_and_its_warnings_returned() -> None:
    utils = pytest.importorskip("huggingface_hub.utils")
    logger = utils.logging.get_logger("huggingface_hub.test")
    before = utils.logging.get_verbosity(), utils.are_progress_bars_disabled()
    with quiet() as said:
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
        assert utils.are_progress_bars_disabled() and not logger.isEnabledFor(40)
    assert said == ["two lines"]
    assert (utils.logging.get_verbosity(), utils.are_progress_bars_disabled()) == before
