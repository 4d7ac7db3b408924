"""The stored bundle as a directory of two pairs, with either engine, and a server of it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from crosshead.addons.serving.directory import Directory, load_directory
from crosshead.tasks.translation.engine import Engines
from crosshead.tasks.translation.model_engine import model_engines
from crosshead.tasks.translation.translator import Translator
from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.addons.serving.loopback import Client

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"


def load(engines: Callable[[Translator], Engines]) -> Directory:
    """English to German, and the same model as German to French, to go by German."""
    places = [f"en-de={BUNDLE}", f"de-fr={BUNDLE}"]
    return load_directory(places, lambda line: None, "cpu", engines)


@pytest.fixture(scope="session")
def own_directory() -> Directory:
    """With crosshead's own engine."""
    return load(model_engines)


@pytest.fixture(scope="session")
def directory(
    engine_name: str, engines: Callable[[Translator], Engines], own_directory: Directory
) -> Directory:
    return own_directory if engine_name == "crosshead" else load(engines)


@pytest.fixture(scope="session")
def translator(own_directory: Directory) -> Translator:
    """What the server of either engine should say."""
    return own_directory.pairs["en", "de"].translator


@pytest.fixture(scope="module")
def client(directory: Directory) -> "Iterator[Client]":
    from tests.addons.serving.loopback import running

    with running(directory) as found:
        yield found
