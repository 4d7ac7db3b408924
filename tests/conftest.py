"""What every test shares: a core, one thread a process, and the data sets beside the checkout."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import shape_checker
import torch
from hypothesis import Phase, settings

from crosshead.addons.interop.ctranslate2_engine import CTranslate2Engines
from crosshead.bundle.texts import BundleState
from crosshead.tasks.translation.translator import Translator
from tests.blank_curve import blank_curve
from tests.browser import launched
from tests.cores import on_all_cores, take_one
from tests.hub_server import Hub, connect, running_hub

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A failure is told at once: Hypothesis looks up to five minutes for a smaller example. The option
# `--hypothesis-profile=default` lets it look.
settings.register_profile(
    "suite", deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("suite")

MOST_SECONDS = 120
"""The time after which a test fails that is not marked as slow, so that a loop without an end does
not stop the suite."""

LONGEST = {"test_distributed.py", "test_huggingface.py", "test_identities.py"}
"""The files that take longest."""


def pytest_configure() -> None:
    """A core for each of several workers: threads of programs side by side wait for each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        take_one(int(worker.removeprefix("gw")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: at the end, one worker would wait for the other."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Take the thousands of collected tests out of what each garbage collection looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _fixtures_stay() -> Iterator[None]:
    """No engine stores its form of a model in the repository."""
    store = CTranslate2Engines.store

    def elsewhere(self: CTranslate2Engines, translator: Translator, state: BundleState) -> None:
        if not state.path.resolve().is_relative_to(ROOT):
            store(self, translator, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CTranslate2Engines, "store", elsewhere)
        yield


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with launched() as found:
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    shape_checker.begin_test()


class Endless(BaseException):
    """A test does not end. Neither the tested code nor Hypothesis handles it as a usual error."""


def _interrupt(*_: object) -> None:
    raise Endless(f"the test takes more than {MOST_SECONDS} seconds")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(0 if item.get_closest_marker("slow") else MOST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.fixture
def all_cores() -> Iterator[None]:
    """All cores for a test that starts several processes or asks how many there are."""
    with on_all_cores():
        yield


@pytest.fixture(autouse=True)
def _threads() -> None:
    """Begin each test with one thread, or with as many as OMP_NUM_THREADS says.

    Threads of two tests on two cores wait for each other.
    """
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


@pytest.fixture(scope="session", autouse=True)
def _blank_pictures() -> Iterator[None]:
    """Leave the pictures of runs blank: to draw one takes as long as to train a small model.

    `tests/training/test_curve.py` draws them, and so do programs that tests start.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crosshead.training.result.draw_training_curve", blank_curve)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """Leave data to the system: no test of this process cuts the power off.

    Programs that tests start wait, and so does the disk in `tests/reliability/test_disk.py`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


# A shell starts its background jobs deaf to SIGINT, nohup to SIGHUP, and so would be the programs
# that are started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets: `CROSSHEAD_DATA`, or `../shared/data` beside the checkout."""
    folder = Path(os.environ.get("CROSSHEAD_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"needs the data sets: {folder} is not there (CROSSHEAD_DATA names another)")
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A stand-in for a model hub, which the client of this process uses with a token to write."""
    with running_hub() as server:
        connect(server, tmp_path / "hf", monkeypatch)
        yield server
