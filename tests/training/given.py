"""What runs are given from Python, without training."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from crosshead.training import api


class Given(NamedTuple):
    """The recipe that a run was given, and its files in memory's place by their names."""

    recipe: Any
    files: dict[str, str]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Given]:
    """What runs are given, without training."""
    found: list[Given] = []

    def noted(recipe: Any, out: Path, **more: Any) -> SimpleNamespace:
        folder = out.with_name(f"{out.name}.data")
        files = {re.sub("-.*[.]", ".", path.name): path.read_text() for path in folder.glob("*")}
        found.append(Given(recipe, files))
        return SimpleNamespace(verdict="")

    monkeypatch.setattr(api.run, "train", noted)
    return found
