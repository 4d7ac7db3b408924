from typing import Any

import pytest

from crosshead.config import Config
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.tasks.registry import TASKS
from tests.recipe.refusing import DATA, TEXT, refusal


def test_a_text_recipe_has_a_tokenizer_and_a_search_beside_the_sections_of_every_recipe() -> None:
    assert TextRecipe.model_fields.keys() - Recipe.model_fields.keys() == {"tokenizer", "decode"}


@pytest.mark.parametrize(
    ("section", "key", "may_change"),
    [
        ("decode", "beam", True), ("decode", "seed", True), ("data", "source", True),
        ("data", "text", True), ("data", "source_language", True), ("train", "max_updates", True),
        ("data", "max_length", False), ("tokenizer", "kind", False), ("model", "d_model", False),
        ("train", "seed", False), ("train", "batch_tokens", False),
    ],
)  # fmt: skip
def test_a_resumed_run_may_search_in_another_way_but_not_learn_from_other_tokens(
    section: str, key: str, may_change: bool
) -> None:
    assert TextRecipe.may_change(section, key) == may_change


@pytest.mark.parametrize("task", ["translation", "language", "masked"])
def test_every_key_that_a_recipe_speaks_of_is_one_of_its_keys(task: str) -> None:
    recipe = compose(
        recipe=(DATA if task == "translation" else TEXT) | {"model": TASKS[task].architecture}
    )
    named = [
        *((section, key) for section, keys in recipe.changeable.items() for key in keys),
        *((section, key) for section, keys in recipe.left_open.items() for key in keys),
    ]
    assert {section for section, _ in named} <= set(type(recipe).model_fields)
    for section, key in named:
        assert key in type(getattr(recipe, section)).model_fields, f"{section}.{key}"
    fixed: list[Config] = [getattr(recipe, section) for section in recipe.fixed_by_bundle]
    keys = {key for section in fixed for key in type(section).model_fields}
    assert recipe.of_training - keys <= {"attention_dropout", "activation_dropout"}
    assert {"sampling", "dropout"} <= recipe.of_training & keys


@pytest.mark.parametrize(
    ("recipe", "architecture"),
    [(DATA, "recurrent"), (DATA, "convolutional"), (TEXT, "language"), (TEXT, "encoder")],
)
def test_guided_alignment_is_for_the_transformer(recipe: dict[str, Any], architecture: str) -> None:
    message = refusal("guided_alignment=0.3", recipe=recipe | {"model": architecture})
    assert message.endswith(
        f"train.guided_alignment is for the architecture transformer, found {architecture}: leave "
        "it out"
    )
    compose(assignments=["guided_alignment=0.3"], recipe=DATA)
