from crosshead.tasks.recipes import compose
from tests.recipe.refusing import DATA


def test_without_a_preset_tiny_is_completed() -> None:
    assert compose(recipe=DATA) == compose("tiny", DATA)
    assert compose().model.d_model == 128
