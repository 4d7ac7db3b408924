"""The version stands once."""

from importlib.metadata import version

import crosshead
from crosshead.version import __version__


def test_the_version_is_that_of_the_package() -> None:
    assert crosshead.__version__ == __version__ == version("crosshead")
