import copy
from typing import Any

import pytest

from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from crosshead.recipe.compose import Below, compose, known_keys, stated, task_for
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import TASKS
from crosshead.training.schedule import paper_rate
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
    found = compose(
        "tiny", DATA, assignments=["heads=2"], below=Below({"model": model.model_dump()})
    )
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
    below = Below({"model": tiny.model.model_dump()})
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
    assert set(task_for({"model": "transformer"}).recipe.data_class().file_keys) == {
        "source", "target", "pairs", "text", "valid_source", "valid_target", "valid_pairs",
        "valid_text", "old_source", "old_target", "old_pairs", "old_valid_source",
        "old_valid_target", "old_valid_pairs",
    }  # fmt: skip
    assert task_for({"data": {"series": ["a.csv"]}}) is TASKS["forecasting"]
    assert task_for({"data": 3, "model": ["x"]}) is TASKS["translation"]


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
    below = Below({"model": compose(recipe=IMAGES).model.model_dump()})
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
            "data.images is for a model that classifies images, and the model patchtst for one "
            "that forecasts a time series",
        ),
        (
            {"data": {"images": ["i"]}, "model": "patchtst"},
            "data.images is for a model that classifies images, and the model patchtst "
            "for one that forecasts a time series",
        ),
        (
            {"data": {"series": ["s"], "text": ["t"]}},
            "data.series is for a model that forecasts a time series, and the model language for "
            "one that continues text",
        ),
        (
            {"data": {"horizon": 5}},
            "data.horizon is for a model that forecasts a time series, and the model transformer "
            "for one that translates",
        ),
    ],
)
def test_data_of_two_tasks_are_refused_by_what_they_are_for(
    recipe: dict[str, Any], expected: str
) -> None:
    assert refusal(recipe=recipe) == f"{expected}; leave out one of them"


def test_data_of_another_task_than_the_bundle_are_refused() -> None:
    below = Below({"model": compose(recipe=IMAGES).model.model_dump()})
    with pytest.raises(ConfigError, match=r"--series is .* and the model to start from for one"):
        compose(flags={"data": {"series": ["s"]}}, below=below, typed={"data.series": "--series"})


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
    assert refusal(preset="tinny") == "unknown preset 'tinny'; did you mean 'tiny'?"


@pytest.mark.parametrize("budget", ["max_updates=7", "max_epochs=7", "max_minutes=7"])
@pytest.mark.parametrize(("model", "preset"), EVERY)
def test_a_stated_budget_replaces_those_of_the_preset(model: str, preset: str, budget: str) -> None:
    beginning = compose(preset, {"model": model}).train
    train = compose(preset, {"model": model}, assignments=[f"train.{budget}"]).train
    to_the_end = beginning.schedule != "cosine"
    assert train.schedule == ("constant" if to_the_end else beginning.schedule)
    found = {"max_updates": train.max_updates, "max_epochs": train.max_epochs}
    found["max_minutes"] = train.max_minutes
    expected = {"max_updates": None, "max_epochs": None, "max_minutes": None}
    assert found == {**expected, budget.partition("=")[0]: 7}


def test_stated_budgets_add_up_over_the_layers() -> None:
    train = compose("tiny", {"train": {"max_epochs": 3}}, {"train": {"max_updates": 5}}).train
    assert (train.max_epochs, train.max_updates, train.max_minutes) == (3, 5, None)


@pytest.mark.parametrize("layer", ["recipe", "flags", "assignments"])
def test_the_papers_schedule_needs_no_peak_removed_from_a_preset(layer: str) -> None:
    table = {"train": {"schedule": "paper"}}
    above = {layer: ["train.schedule=paper"] if layer == "assignments" else table}
    assert compose("tiny", **above).train.learning_rate is None  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["tiny", "small"])
@pytest.mark.parametrize("budget", ["max_updates=9", "max_epochs=9", "max_minutes=9"])
def test_the_rate_of_a_small_preset_falls_to_the_end_of_a_stated_budget(
    size: str, budget: str
) -> None:
    def rate(*assignments: str) -> tuple[str, float]:
        train = compose(size, assignments=assignments).train
        return train.schedule, train.cooldown

    assert rate() == ("inverse-sqrt", 0.0)
    assert rate(budget) == ("constant", 0.9)
    assert rate(budget, "cooldown=0.3") == ("constant", 0.3)
    assert rate(budget, "schedule=inverse-sqrt") == ("inverse-sqrt", 0.0)
    assert rate("schedule=constant") == ("constant", 0.0)


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_early_stopping_never_meets_a_rate_that_has_fallen_before(size: str) -> None:
    """Spent patience would lower a rate at once that falls from the warm-up on."""

    def patience(*assignments: str) -> tuple[int, float]:
        train = compose(size, assignments=assignments).train
        return train.patience, train.cooldown

    assert patience() == (10, 0.0)
    assert patience("max_updates=9") == (0, 0.9)
    assert patience("max_updates=9", "patience=3") == (3, 0.2)
    assert patience("max_updates=9", "patience=0") == (0, 0.9)
    assert patience("max_updates=9", "schedule=inverse-sqrt") == (10, 0.0)


def test_presets_with_a_schedule_keep_it_with_a_stated_budget() -> None:
    for given in ({"model": "language"}, {"model": {"architecture": "vit"}}):
        train = compose("tiny", given, assignments=["max_minutes=9"]).train
        assert (train.schedule, train.cooldown) == ("cosine", 0.0)


@pytest.mark.parametrize("size", ["base", "big"])
def test_the_papers_models_have_the_papers_schedule_until_a_budget_is_stated(size: str) -> None:
    papers = compose(size).train
    assert (papers.schedule, papers.learning_rate, papers.warmup) == ("paper", None, 4000)
    train = compose(size, assignments=["max_minutes=9"]).train
    assert (train.schedule, train.cooldown, train.warmup_share) == ("constant", 0.9, 0.1)
    peak = paper_rate(4000, compose(size).model.d_model, 4000)
    assert train.learning_rate == pytest.approx(peak, rel=0.02)
    stated = compose(size, assignments=["max_minutes=9", "schedule=paper"]).train
    assert (stated.schedule, stated.learning_rate, stated.warmup_share) == ("paper", None, 0.0)


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt", "cosine"])
@pytest.mark.parametrize("width", [256, 1024])
def test_another_schedule_of_the_papers_models_has_their_peak(schedule: str, width: int) -> None:
    peak = paper_rate(4000, width, 4000)
    for budget in ([], ["max_minutes=9"]):
        stated = [f"schedule={schedule}", f"d_model={width}"]
        train = compose("base", assignments=[*budget, *stated]).train
        assert train.learning_rate == pytest.approx(peak, rel=0.06)


@pytest.mark.parametrize("size", ["tiny", "small", "base", "big"])
def test_a_stated_warm_up_is_not_cut_short(size: str) -> None:
    def share(*assignments: str) -> float:
        return compose(size, assignments=assignments).train.warmup_share

    assert share() == share("warmup=50") == share("max_updates=99", "warmup=50") == 0
    assert share("max_updates=99") == 0.1


def test_later_settings_win_and_others_stay() -> None:
    found = stated(
        {"model": {"d_model": 1, "heads": 2}},
        {"model": {"d_model": 3}, "train": {"seed": 4}},
        ["train.seed=5", "data.source=['a']", "data.source=['b']"],
    )
    assert found["data"] == {"source": ["b"]} and found["train"] == {"seed": 5}
    assert found["model"] == {"d_model": 3, "heads": 2}


def test_what_is_stated_is_not_shared_with_the_caller() -> None:
    recipe = {"model": {"d_model": 1}}
    stated(recipe)["model"]["d_model"] = 2
    assert recipe == {"model": {"d_model": 1}}


def test_a_name_in_place_of_the_section_of_the_model_is_its_architecture() -> None:
    assert stated({"model": "wide"})["model"] == {"architecture": "wide"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("heads", "--set heads: expected section.key=value"),
        ("haeds=3", "--set haeds=3: unknown key 'haeds'; did you mean 'heads'?"),
        ("modle.heads=3", "--set modle.heads=3: unknown section 'modle'; did you mean 'model'?"),
    ],
)
def test_an_assignment_that_is_none_is_refused_with_the_nearest(
    assignment: str, message: str
) -> None:
    assert refusal(assignment) == message


def test_completing_changes_no_preset() -> None:
    before = copy.deepcopy(PRESETS)
    assert compose(assignments=["schedule=paper"]).train.learning_rate is None
    assert before == PRESETS


def test_an_architecture_that_is_unknown_is_called_as_it_was_typed() -> None:
    for typed, name in (
        ({}, "model.architecture"),
        ({"model.architecture": "--model"}, "--model"),
    ):
        said = refusal(recipe={"model": "transfomer"}, typed=typed)
        assert said.startswith(f"{name}: unknown architecture 'transfomer'; did you mean 'transf")


def test_a_preset_of_another_architecture_is_refused_as_such() -> None:
    assert "unknown preset 'base' of language; " in refusal(preset="base", recipe=TEXT)


def test_another_architecture_than_the_one_below_is_refused() -> None:
    below = Below({"model": compose().model.model_dump()}, "the bundle")
    for said in (
        refusal(below=below, recipe={"model": "recurrent"}),
        refusal(below=below, flags={"model": {"architecture": "recurrent"}}),
        refusal("architecture=recurrent", below=below),
    ):
        assert said == (
            "model.architecture is 'recurrent', but the bundle has 'transformer'; leave it out"
        )
