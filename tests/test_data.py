from typing import ClassVar

import pytest

from crosshead.data import DataSection
from crosshead.tasks.registry import TASKS


class Sides(DataSection):
    file_keys: ClassVar[tuple[str, ...]] = ("left", "right")
    left: list[str] = []
    right: list[str] = []
    weight: float = 1.0


def test_files_are_listed_by_key_in_order() -> None:
    assert Sides(left=["a", "b"], right=["c"]).files() == ["a", "b", "c"]
    assert Sides().files() == []


def test_new_names_go_where_the_old_ones_were() -> None:
    data = Sides(left=["a"], right=["b", "c"], weight=2.0)
    moved = data.renamed(["x/a", "x/b", "x/c"])
    assert moved == Sides(left=["x/a"], right=["x/b", "x/c"], weight=2.0)
    assert data.files() == ["a", "b", "c"]  # the section itself is not changed
    assert data.renamed(data.files()) == data


@pytest.mark.parametrize("name", TASKS)
def test_the_file_keys_of_a_task_are_lists_of_names(name: str) -> None:
    section = TASKS[name].recipe.data_class()
    assert section.file_keys
    given = {key: [f"{key}.a", f"{key}.b"] for key in section.file_keys}
    data = section.model_construct(**given)
    assert data.files() == [each for names in given.values() for each in names]
