import json
import shutil
from pathlib import Path

import pytest

from crosshead.errors import DamagedBundle
from crosshead.tasks.registry import load_bundle


@pytest.mark.parametrize("task", ["forecast", [], {}, 3])
def test_a_task_that_is_not_known_is_damage(task: object, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "bundle-format-1", place)
    values = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**values, "task": task}))
    with pytest.raises(DamagedBundle, match="task: expected 'translation'"):
        load_bundle(place)


@pytest.mark.parametrize("key", ["architecture", "score", "positions"])
def test_an_unregistered_name_asks_for_its_registration(key: str, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "bundle-format-1", place)
    values = json.loads((place / "config.json").read_text())
    values["model"][key] = "own"
    (place / "config.json").write_text(json.dumps(values))
    with pytest.raises(DamagedBundle, match="if a program registers this name"):
        load_bundle(place)


@pytest.mark.parametrize("task", [["translation"], {}, None, 3])
def test_a_task_that_is_no_name_is_damage(task: object, stored: Path) -> None:
    values = json.loads((stored / "config.json").read_text())
    values.pop("config_sha256", None)
    (stored / "config.json").write_text(json.dumps(values | {"task": task}))
    with pytest.raises(DamagedBundle, match=r"config.json: task: expected 'translation'"):
        load_bundle(stored)
