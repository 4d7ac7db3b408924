from typing import Any

import pytest

from crosshead.recipe.presets import PRESETS
from crosshead.tasks.recipes import compose
from tests.recipe.refusing import DATA, TEXT, refusal

EVERY = [(model, preset) for model, presets in PRESETS.items() for preset in presets]


def test_each_layer_overrides_the_one_below() -> None:
    recipe: dict[str, Any] = {"model": {"heads": 2, "d_ff": 64, "dropout": 0.2}}
    flags: dict[str, Any] = {"model": {"heads": 8, "d_ff": 32}}
    bare, read = compose("small"), compose("small", recipe)
    flagged = compose("small", recipe, flags)
    given = compose("small", recipe, flags, ["model.heads=16"])
    assert [r.model.heads for r in (bare, read, flagged, given)] == [4, 2, 8, 16]
    assert [r.model.d_ff for r in (bare, read, flagged, given)] == [1024, 64, 32, 32]
    assert [r.model.dropout for r in (bare, read, flagged, given)] == [0.3, 0.2, 0.2, 0.2]
    assert given.model.d_model == 256


def test_the_later_of_two_assignments_counts() -> None:
    assert compose(assignments=["model.heads=2", "heads=8"]).model.heads == 8


@pytest.mark.parametrize(
    ("assignment", "section", "key", "value"),
    [
        ("heads=2", "model", "heads", 2),
        ("model.dropout=0.25", "model", "dropout", 0.25),
        (" model.heads = 2 ", "model", "heads", 2),
        ("kind=unigram", "tokenizer", "kind", "unigram"),
        ('kind="unigram"', "tokenizer", "kind", "unigram"),
        ("joint=false", "tokenizer", "joint", False),
        ("data.source=[]", "data", "source", []),
        ("special=['<2de>', '<2fr>']", "tokenizer", "special", ["<2de>", "<2fr>"]),
        ("device=a=b", "train", "device", "a=b"),
        ("device=", "train", "device", ""),
        ("device=1\nwarmup = 7", "train", "device", "1\nwarmup = 7"),
    ],
)
def test_assignments(assignment: str, section: str, key: str, value: Any) -> None:
    recipe = compose(assignments=["model.tie=two-way", assignment])
    assert getattr(getattr(recipe, section), key) == value


def test_a_key_of_several_sections_is_ambiguous() -> None:
    message = refusal("max_length=40")
    assert "'max_length' is ambiguous" in message
    assert "data.max_length" in message and "model.max_length" in message


@pytest.mark.parametrize("section", ["", "model."])
@pytest.mark.parametrize(
    ("model", "assignment", "why"),
    [
        ("encoder", "memory=16", "only the architecture transformer-xl"),
        ("recurrent", "memory=16", "only the architecture transformer-xl"),
        ("transformer-xl", "positions=rotary", "transformer-xl has fixed positions"),
        ("transformer-xl", "pattern=window", "transformer-xl has a fixed pattern"),
        ("transformer-xl", "score=dot", "transformer-xl has a fixed score"),
    ],
)
def test_a_key_that_cannot_be_is_answered_with_the_reason(
    model: str, assignment: str, why: str, section: str
) -> None:
    data = TEXT if model in ("language", "encoder", "transformer-xl") else DATA
    message = refusal(section + assignment, recipe={**data, "model": model})
    assert message.startswith(f"model.{assignment.partition('=')[0]}: ") and why in message


def test_a_key_that_cannot_be_is_no_suggestion() -> None:
    assert "did you mean 'pattern'?" in refusal("cross_patern=window")


@pytest.mark.parametrize(
    ("recipe", "named"),
    [
        ({"modle": {"heads": 8}}, "unknown section 'modle'; did you mean 'model'?"),
        ({"model": 8}, "model is a section: write [model]"),
        ({"model": ["heads"]}, "model is a section"),
        ({"heads": 8}, "unknown section 'heads'"),
        ({"model": {"haeds": 8}}, "unknown key 'model.haeds'; did you mean 'heads'?"),
        ({"train": {"average": {"last": 3}}}, "train.average"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_by_its_file(recipe: dict[str, Any], named: str) -> None:
    message = refusal(recipe=recipe, where="run.toml")
    assert message.startswith("run.toml: ") and named in message


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    assert refusal(preset="tinny") == "there is no preset 'tinny'; did you mean 'tiny'?"


@pytest.mark.parametrize("budget", ["max_updates=7", "max_epochs=7", "max_minutes=7"])
@pytest.mark.parametrize(("model", "preset"), EVERY)
def test_a_stated_budget_replaces_those_of_the_preset(model: str, preset: str, budget: str) -> None:
    # Where there is no other budget, the end of a cosine stays beside the one that is stated.
    beginning = compose(preset, {"model": model}).train
    ends = beginning.max_updates if beginning.schedule == "cosine" else None
    train = compose(preset, {"model": model}, assignments=[f"train.{budget}"]).train
    assert train.schedule == beginning.schedule
    found = {"max_updates": train.max_updates, "max_epochs": train.max_epochs}
    found["max_minutes"] = train.max_minutes
    expected = {"max_updates": ends, "max_epochs": None, "max_minutes": None}
    assert found == {**expected, budget.partition("=")[0]: 7}
    other = ["learning_rate=1.0", "schedule='inverse-sqrt'", "train.max_minutes=7"]
    assert compose(preset, {"model": model}, assignments=other).train.max_updates is None


def test_stated_budgets_add_up_over_the_layers() -> None:
    train = compose("tiny", {"train": {"max_epochs": 3}}, {"train": {"max_updates": 5}}).train
    assert (train.max_epochs, train.max_updates, train.max_minutes) == (3, 5, None)


@pytest.mark.parametrize("layer", ["recipe", "flags", "assignments"])
def test_the_papers_schedule_needs_no_peak_removed_from_a_preset(layer: str) -> None:
    table = {"train": {"schedule": "paper"}}
    above = {layer: ["train.schedule=paper"] if layer == "assignments" else table}
    assert compose("tiny", **above).train.learning_rate is None  # type: ignore[arg-type]
