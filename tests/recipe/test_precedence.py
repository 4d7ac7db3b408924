import copy
from typing import Any

import pytest

from crosshead.errors import ConfigError
from crosshead.recipe.precedence import KnownKeys, completed, stated
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.recipes import compose
from crosshead.training.schedule import paper_rate
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


KNOWN = KnownKeys(
    {"data": ["size", "left"], "model": ["size", "width"], "train": ["seed", "max_updates"]},
    frozenset({"memory"}),
)


def test_later_settings_win_and_others_stay() -> None:
    found = stated(
        KNOWN,
        {"model": {"width": 1, "size": 2}},
        {"model": {"width": 3}, "train": {"seed": 4}},
        ["train.seed=5", "left=['a']", "left=['b']"],
    )
    assert found == {
        "data": {"left": ["b"]}, "model": {"width": 3, "size": 2}, "train": {"seed": 5},
    }  # fmt: skip


def test_the_task_of_the_settings_decides_the_section_of_a_key_that_two_sections_have() -> None:
    def narrowed(settings: dict[str, Any]) -> KnownKeys:
        assert settings["train"] == {"seed": 4}, "the other assignments count, later ones too"
        return KnownKeys({"model": ["size"]}, frozenset())

    assignments = ["model.size=1", "size=2", "train.seed=4"]
    found = stated(KNOWN, assignments=assignments, narrowed=narrowed)
    assert found == {"data": {}, "model": {"size": 2}, "train": {"seed": 4}}
    both = KnownKeys({"data": ["size"], "model": ["size"]}, frozenset())
    with pytest.raises(ConfigError, match=r"ambiguous; write data\.size or model\.size"):
        stated(KNOWN, assignments=["size=2"], narrowed=lambda _: both)


def test_what_is_stated_is_not_shared_with_the_caller() -> None:
    recipe = {"model": {"width": 1}}
    stated(KNOWN, recipe)["model"]["width"] = 2
    assert recipe == {"model": {"width": 1}}


def test_a_name_in_place_of_the_section_of_the_model_is_its_architecture() -> None:
    assert stated(KNOWN, {"model": "wide"})["model"] == {"architecture": "wide"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("width", "--set width: expected section.key=value"),
        ("size=3", "--set size=3: 'size' is ambiguous; write data.size or model.size"),
        ("widht=3", "--set widht=3: unknown key 'widht'; did you mean 'width'?"),
        ("modle.width=3", "--set modle.width=3: unknown section 'modle'; did you mean 'model'?"),
    ],
)
def test_an_assignment_that_is_none_is_refused_with_the_nearest(
    assignment: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        stated(KNOWN, assignments=[assignment])
    assert str(caught.value) == message


def test_a_key_that_the_model_explains_is_left_to_the_model() -> None:
    assert stated(KNOWN, assignments=["memory=3"])["model"] == {"memory": 3}


@pytest.mark.parametrize("where", ["", "my.toml"])
def test_a_section_that_is_none_is_refused_by_its_file(where: str) -> None:
    prefix = f"{where}: " if where else ""
    with pytest.raises(ConfigError) as caught:
        stated(KNOWN, {"train": 3}, where=where)
    assert str(caught.value) == f"{prefix}train is a section: write [train] and its keys below it"


def complete(typed: dict[str, str] | None = None, **train: Any) -> dict[str, Any]:
    sections = {"data": {}, "model": {}, "train": train}
    return completed("tiny", {}, sections, typed, "transformer")


def test_the_preset_stands_below_what_is_stated() -> None:
    tiny = PRESETS["transformer"]["tiny"]
    found = complete(seed=77)
    assert found["train"] == {**tiny["train"], "seed": 77}
    assert found["model"] == {**tiny["model"], "architecture": "transformer"}
    below = {"model": {"architecture": "language", "d_model": 3}}
    found = completed("tiny", below, {"model": {"heads": 2}, "train": {}}, None, "transformer")
    assert found["model"] == {"architecture": "language", "d_model": 3, "heads": 2}
    assert found["train"] == PRESETS["language"]["tiny"]["train"]


def test_completing_changes_no_preset() -> None:
    before = copy.deepcopy(PRESETS)
    assert "learning_rate" not in complete(schedule="paper")["train"]
    assert before == PRESETS


def test_an_architecture_that_is_unknown_is_called_as_it_was_typed() -> None:
    for typed, name in (
        (None, "model.architecture"),
        ({"model.architecture": "--model"}, "--model"),
    ):
        sections = {"model": {"architecture": "transfomer"}, "train": {}}
        with pytest.raises(ConfigError, match="did you mean 'transformer'") as caught:
            completed("tiny", {}, sections, typed, "transformer")
        assert str(caught.value).startswith(f"{name}: unknown architecture 'transfomer'; ")


def test_a_preset_of_another_architecture_is_refused_as_such() -> None:
    sections = {"model": {"architecture": "language"}, "train": {}}
    with pytest.raises(ConfigError, match="unknown preset 'base' of language; "):
        completed("base", {}, sections, None, "transformer")
