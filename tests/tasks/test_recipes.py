from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.tasks.recipes import (
    compose,
    file_arguments,
    file_keys,
    known_keys,
    stated,
    stored,
)
from crosshead.tasks.registry import TASKS
from tests.recipe.refusing import DATA, IMAGES, TEXT, refusal


def test_without_a_preset_tiny_is_completed() -> None:
    assert compose(recipe=DATA) == compose("tiny", DATA)
    assert compose().model.d_model == 128


@pytest.mark.parametrize(
    ("recipe", "architecture", "metric"),
    [
        (DATA, "transformer", "bleu"),
        (TEXT, "language", "loss"),
        ({}, "transformer", "bleu"),
        (TEXT | {"model": "encoder"}, "encoder", "loss"),
        (DATA | {"model": "recurrent"}, "recurrent", "bleu"),
    ],
)
def test_the_data_choose_the_task_and_the_task_its_metric(
    recipe: dict[str, Any], architecture: str, metric: str
) -> None:
    found = compose(recipe=recipe)
    assert (found.model.architecture, found.train.metric) == (architecture, metric)
    assert type(found) is TASKS[found.model.task].recipe


def test_a_metric_of_the_task_is_taken_and_another_is_refused_by_its_name() -> None:
    assert compose(recipe=TEXT, assignments=["metric=bits_per_character"]).train.metric == (
        "bits_per_character"
    )
    expected = "expected 'loss' or 'bits_per_character', found 'bleu'"
    assert refusal("metric=bleu", recipe=TEXT) == f"train.metric: {expected}"
    table = {**TEXT, "train": {"metric": "bleu"}}
    assert refusal(recipe=table, where="my.toml") == f"my.toml: train.metric: {expected}"
    named = refusal("metric=bleu", recipe=TEXT, typed={"train.metric": "--metric"})
    assert named == f"--metric: {expected}"


def test_a_mistake_in_the_file_names_the_file_and_one_beside_it_does_not() -> None:
    wrong = {"train": {"seed": -1}}
    assert refusal(recipe=wrong, where="my.toml").startswith("my.toml: train.seed: ")
    assert refusal(recipe=DATA, flags=wrong, where="my.toml").startswith("train.seed: ")


def test_a_bundle_below_replaces_the_sections_of_the_preset() -> None:
    model = compose("small").model
    found = compose("tiny", DATA, assignments=["heads=2"], below={"model": model.model_dump()})
    assert found.model == model.model_copy(update={"heads": 2})
    assert found.train == compose("tiny", DATA).train


@pytest.mark.parametrize(
    ("architecture", "width", "rate"),
    [
        ("transformer", 64, 0.004), ("transformer", 128, 0.004), ("transformer", 256, 0.001),
        ("transformer", 512, 0.0007), ("transformer", 1024, 0.0005), ("recurrent", 512, 0.001),
        ("transformer-xl", 512, 0.002), ("dlinear", None, 0.001),
    ],
)  # fmt: skip
def test_a_bundle_is_tuned_with_the_learning_rate_of_its_width(
    architecture: str, width: int | None, rate: float
) -> None:
    data = {"data": {"series": ["a.csv"]}} if architecture == "dlinear" else DATA
    if architecture == "transformer-xl":
        data = {"data": {"text": ["a.txt"]}}
    given = [] if width is None else [f"d_model={width}"]
    tiny = compose("tiny", {**data, "model": architecture}, assignments=given)
    below = {"model": tiny.model.model_dump()}
    for budget in ([], ["max_updates=9"]):
        usual = compose("tiny", {**data, "model": architecture}, assignments=[*given, *budget])
        found = compose("auto", data, assignments=budget, below=below)
        assert found.model == tiny.model
        assert found.train == usual.train.model_copy(update={"learning_rate": rate})
    stated = compose("auto", data, assignments=["learning_rate=0.5"], below=below)
    assert stated.train.learning_rate == 0.5


def test_known_keys_are_those_of_all_tasks_and_architectures() -> None:
    known = known_keys()
    assert {"data", "model", "train", "tokenizer", "decode"} <= known.sections.keys()
    for task in TASKS.values():
        assert set(task.recipe.data_class().model_fields) <= set(known.sections["data"])
    for config in CONFIGS.values():
        assert set(config.model_fields) <= set(known.sections["model"])
        assert set(config.cannot) <= known.refused
    assert set(file_keys({"model": "transformer"})) == {
        "source", "target", "pairs", "text", "valid_source", "valid_target", "valid_pairs",
        "valid_text", "old_source", "old_target", "old_pairs", "old_valid_source",
        "old_valid_target", "old_valid_pairs",
    }  # fmt: skip
    assert file_keys({"data": {"series": ["a.csv"]}}) == ("series",)


SERIES = {"data": {"series": ["a.csv"]}}


@pytest.mark.parametrize(
    "more",
    [
        {"recipe": SERIES},
        {"recipe": IMAGES},
        {"flags": SERIES},
        {"assignments": ["series=['a.csv']"]},
        {"recipe": {"model": "dlinear"}},
        {"assignments": ["architecture=patchtst"]},
        {"below": {"model": {"architecture": "vit"}}},
    ],
    ids=str,
)
def test_a_bare_key_is_looked_for_in_the_sections_of_the_task(more: dict[str, Any]) -> None:
    """Other tasks have `decode.batch_tokens` too."""
    assignments = ["train.batch_tokens=100", "batch_tokens=200", *more.get("assignments", [])]
    found = stated(**{**more, "assignments": assignments})
    assert found["train"]["batch_tokens"] == 200 and not found["decode"]


@pytest.mark.parametrize("recipe", [DATA, TEXT, TEXT | {"model": "encoder"}, {}])
def test_a_bare_key_of_two_sections_of_the_task_is_ambiguous(recipe: dict[str, Any]) -> None:
    expected = "is ambiguous; write train.batch_tokens or decode.batch_tokens"
    assert refusal("batch_tokens=200", recipe=recipe).endswith(expected)


def test_a_recipe_with_a_bare_key_of_its_task_is_composed() -> None:
    assert compose(recipe=SERIES, assignments=["batch_tokens=200"]).train.batch_tokens == 200
    below = {"model": compose(recipe=IMAGES).model.model_dump()}
    found = compose(recipe=IMAGES, assignments=["batch_tokens=300"], below=below)
    assert found.train.batch_tokens == 300


def test_stated_settings_have_no_defaults() -> None:
    assert stated(DATA, assignments=["heads=2"]) == {
        "data": DATA["data"], "model": {"heads": 2}, "train": {}, "tokenizer": {}, "decode": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (
            {"data": {"images": ["i"], "series": ["s"]}},
            "data.images is for a model that classifies images, and data.series for one that "
            "forecasts a time series",
        ),
        (
            {"data": {"images": ["i"]}, "model": "patchtst"},
            "data.images is for a model that classifies images, and model.architecture patchtst "
            "for one that forecasts a time series",
        ),
        (
            {"data": {"series": ["s"], "text": ["t"]}},
            "data.series is for a model that forecasts a time series, and data.text for one that "
            "continues text",
        ),
        (
            {"data": {"horizon": 5}},
            "data.horizon is for a model that forecasts a time series, and the model for one that "
            "translates",
        ),
    ],
)
def test_data_of_two_tasks_are_refused_by_what_they_are_for(
    recipe: dict[str, Any], expected: str
) -> None:
    assert refusal(recipe=recipe) == f"{expected}; leave out one of them"


def test_data_of_another_task_than_the_bundle_are_refused() -> None:
    below = {"model": compose(recipe=IMAGES).model.model_dump()}
    with pytest.raises(ConfigError, match=r"--series is .* and the model to start from for one"):
        compose(flags={"data": {"series": ["s"]}}, below=below, typed={"data.series": "--series"})


def test_given_data_are_stored_by_the_task_that_recognizes_them() -> None:
    written: dict[str, list[str]] = {}

    def write(name: str, lines: Iterable[str]) -> str:
        written[name] = list(lines)
        return f"kept/{name}"

    table = {"time": ["2024-01-01"], "load": [1]}
    found = stored({"series": table, "target": "load"}, write)
    assert found == {"series": ["kept/train.csv"], "target": "load"}
    assert written == {"train.csv": ["time,load", "2024-01-01,1"]}
    given = {"images": "photos", "captions": [Path("a.jsonl")]}
    assert stored({**given, "target": "b.de"}, write) == given
    assert {"series", "images", "captions", "source"} <= file_arguments()
    assert len(written) == 1
