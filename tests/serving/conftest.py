"""The stored bundle as a directory of two pairs, and a server of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from crosshead.pipelines.translator import Translator
from crosshead.serving.directory import Directory, load_directory
from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.serving.loopback import Client

BUNDLE = ROOT / "tests" / "fixtures" / "bundle-format-1"


@pytest.fixture(scope="session")
def directory() -> Directory:
    """English to German, and the same model as German to French, to go by German."""
    return load_directory([f"en-de={BUNDLE}", f"de-fr={BUNDLE}"], lambda line: None, "cpu")


@pytest.fixture(scope="session")
def translator(directory: Directory) -> Translator:
    return directory.routes["en", "de"].translator


@pytest.fixture(scope="module")
def client(directory: Directory) -> "Iterator[Client]":
    from tests.serving.loopback import running

    with running(directory) as found:
        yield found
