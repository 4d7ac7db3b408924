import pytest
import torch

from crosshead.models.registry import CONFIGS, MODELS
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.registry import task_of

NAMED = [(architecture, size) for architecture, sizes in PRESETS.items() for size in sizes]
TASKS = {config.model_fields["architecture"].default: config.task for config in CONFIGS.values()}


def preset(architecture: str, size: str) -> Recipe:
    return compose(size, {"model": architecture})


def parameters(recipe: Recipe) -> int:
    example = task_of(recipe).example(recipe.model, recipe.model_dump())
    assert example
    with torch.device("meta"):
        model = example[1]()
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_model_has_the_smallest() -> None:
    assert PRESETS.keys() == MODELS.keys()
    assert all("tiny" in sizes for sizes in PRESETS.values())


@pytest.mark.parametrize(("architecture", "size"), NAMED)
def test_presets_are_whole_recipes_but_for_the_data(architecture: str, size: str) -> None:
    recipe = preset(architecture, size)
    assert recipe.model.architecture == architecture
    chosen = {"translation": "bleu", "captioning": "bleu", "classification": "accuracy"}
    chosen["multimodal"] = "bleu"
    assert recipe.train.metric == chosen.get(TASKS[architecture], "loss")
    assert hasattr(recipe, "decode") == (
        TASKS[architecture] not in ("forecasting", "classification")
    )
    if hasattr(recipe, "decode"):
        assert recipe.decode.sample == (TASKS[architecture] == "language")


@pytest.mark.parametrize(("architecture", "size"), NAMED)
def test_the_rate_falls_to_the_end_of_a_stated_budget(architecture: str, size: str) -> None:
    train = compose(size, {"model": architecture}, assignments=["max_epochs=2"]).train
    assert train.cooldown > 0 or train.schedule == "cosine"


@pytest.mark.parametrize("architecture", PRESETS)
def test_a_larger_one_has_more_parameters(architecture: str) -> None:
    sizes = [parameters(preset(architecture, size)) for size in PRESETS[architecture]]
    assert sizes == sorted(sizes) and len(set(sizes)) == len(sizes)


@pytest.mark.parametrize(("size", "millions"), [("base", 65), ("big", 213)])
def test_the_paper_has_as_many(size: str, millions: int) -> None:
    """Vaswani et al. 2017, Table 3, with a vocabulary of 37,000; the table rounds up, or more."""
    recipe = preset("transformer", size)
    assert parameters(recipe) / 1e6 == pytest.approx(millions, rel=0.04)
