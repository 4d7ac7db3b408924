from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.registry import TASKS
from crosshead.tasks.validation import Loss

TRAIN = TrainConfig(max_updates=1, learning_rate=0.1, label_smoothing=0.25)


class Counting(Task):
    """A task whose loss and validator return what they are given."""

    name: ClassVar[str] = "counting"
    validator: ClassVar[Any] = staticmethod(lambda *arguments: arguments)

    def read(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    def loss(self, model: Any, batch: Any, settings: TrainConfig) -> Loss:
        return Loss({"loss": torch.tensor(settings.label_smoothing)}, batch)


def test_a_task_without_data_or_loss_is_none() -> None:
    for missing in ("read", "loss"):
        methods = {name: getattr(Counting, name) for name in ("read", "loss") if name != missing}
        with pytest.raises(TypeError, match=missing):
            type("Half", (Task,), methods)()


def test_the_validator_gets_the_run_and_the_loss_of_its_settings() -> None:
    recipe: Any = SimpleNamespace(train=TRAIN)
    corpus: Any = object()
    device = torch.device("cpu")
    found: Any = Counting().make_validator(recipe, corpus, 7, device, lambda: True)
    assert found[:4] == (recipe, corpus, 7, device) and found[5]()
    loss = found[4](None, 3)
    assert (float(loss.sums["loss"]), loss.count) == (0.25, 3)


def test_a_task_recognizes_no_data_and_changes_no_recipe_by_itself() -> None:
    recipe = object()
    assert not Counting().recognizes({"text": ["a"]})
    assert Counting().prepare(recipe) == (recipe, [])


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_declared_whole(name: str) -> None:
    task = TASKS[name]
    for declared in Task.__annotations__:
        assert hasattr(task, declared), declared
    names = [metric.name for metric in task.metrics]
    assert len(set(names)) == len(names) and "loss" in names and task.chooses in names


@pytest.mark.parametrize(
    ("data", "recognizing"), [({"text": ["a"]}, ["language"]), ({"source": ["a"]}, []), ({}, []),
                           ({"text": []}, [])]
)  # fmt: skip
def test_at_most_one_task_recognizes_data(data: dict[str, Any], recognizing: list[str]) -> None:
    assert [name for name, task in TASKS.items() if task.recognizes(data)] == recognizing
