"""Data of recipes, and the messages of refused recipes."""

from typing import Any

import pytest

from crosshead.errors import ConfigError
from crosshead.recipe.compose import compose

DATA = {"data": {"source": ["train.en"], "target": ["train.de"]}}


TEXT = {"data": {"text": ["book.txt"]}}
IMAGES = {"data": {"images": ["pictures.zip"]}}


def refusal(*assignments: str, **more: Any) -> str:
    """The one line with which a recipe is refused."""
    with pytest.raises(ConfigError) as caught:
        compose(assignments=assignments, **more)
    message = str(caught.value)
    assert "\n" not in message
    return message
