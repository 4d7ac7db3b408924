"""Copies of the stored bundles, which a test may damage."""

import shutil
from pathlib import Path

import pytest

from tests.bundle.stored import SEALED, STORED


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the stored bundle without checksums."""
    return Path(shutil.copytree(STORED, tmp_path / "bundle"))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A copy of the stored bundle with checksums."""
    return Path(shutil.copytree(SEALED, tmp_path / "sealed"))
