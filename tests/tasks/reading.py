"""What tests share: the data of a recipe, read by its task."""

from pathlib import Path
from typing import Any

from crosshead.tasks.registry import task_of


def read_corpus(recipe: Any, base: Any = None, resumed: Path | None = None, **more: Any) -> Any:
    return task_of(recipe).read(recipe, base, resumed, **more)
