import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from crosshead.config import read_toml
from crosshead.errors import ConfigError
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.toml import to_toml
from crosshead.tasks.recipes import compose

DATA = {"data": {"source": ["train.en"], "target": ["train.de"]}}
TEXT = {"data": {"text": ["book.txt"]}}
EVERY = [(model, preset) for model, presets in PRESETS.items() for preset in presets]
SHIPPED = sorted(Path(str(files("crosshead.recipe"))).glob("shipped/*.toml"))

TABLE_3 = {
    "A: 1 head": ["heads=1", "d_key=512", "d_value=512"],
    "A: 4 heads": ["heads=4", "d_key=128", "d_value=128"],
    "A: 16 heads": ["heads=16", "d_key=32", "d_value=32"],
    "A: 32 heads": ["heads=32", "d_key=16", "d_value=16"],
    "B: keys of 16": ["d_key=16"],
    "B: keys of 32": ["d_key=32"],
    "C: 2 layers": ["encoder_layers=2", "decoder_layers=2"],
    "C: 4 layers": ["encoder_layers=4", "decoder_layers=4"],
    "C: 8 layers": ["encoder_layers=8", "decoder_layers=8"],
    "C: width 256": ["d_model=256", "d_key=32", "d_value=32"],
    "C: width 1024": ["d_model=1024", "d_key=128", "d_value=128"],
    "C: inner 1024": ["d_ff=1024"],
    "C: inner 4096": ["d_ff=4096"],
    "D: no dropout": ["model.dropout=0.0"],
    "D: dropout 0.2": ["model.dropout=0.2"],
    "D: no smoothing": ["label_smoothing=0.0"],
    "D: smoothing 0.2": ["label_smoothing=0.2"],
    "E: learned positions": ["positions=learned"],
}
"""The rows of Vaswani et al. 2017, Table 3, as what they change of `base`."""


def refusal(*assignments: str, **more: Any) -> str:
    """The one line with which a recipe is refused."""
    with pytest.raises(ConfigError) as caught:
        compose(assignments=assignments, **more)
    message = str(caught.value)
    assert "\n" not in message
    return message


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


def test_without_a_preset_tiny_is_completed() -> None:
    assert compose(recipe=DATA) == compose("tiny", DATA)
    assert compose().model.d_model == 128


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


@pytest.mark.parametrize(
    ("assignment", "named", "hint"),
    [
        ("model.haeds=8", "model.haeds", "did you mean 'heads'?"),
        ("haeds=8", "haeds", "did you mean 'heads'?"),
        ("modle.heads=8", "modle", "did you mean 'model'?"),
        ("model.heads", "model.heads", "section.key=value"),
        ("model.heads\nx", r"'model.heads\nx'", "section.key=value"),
        ("max_length\n=3", "max_length", "ambiguous"),
        ("haeds\n=3\n", "haeds", "did you mean"),
        ("model.haeds=3\n", "model.haeds", "did you mean"),
        ("modle.heads=\n3", "modle", "did you mean"),
        ("model.heads=3\n4", "model.heads", r"found '3\n4'"),
        ("data.source=a\udcff", "data.source", r"'a\udcff' is not UTF-8"),
        ("data.source_language=e n", "data.source_language", "found 'e n'"),
        ("model.heads=eight", "model.heads", "found 'eight'"),
        ("model.heads=8.5", "model.heads", "found 8.5"),
        ("model.heads=true", "model.heads", "found True"),
        ("model.heads='8'", "model.heads", "found '8'"),
        ("model.heads=0", "model.heads", "found 0"),
        ("model.heads=3", "heads 3", "not divisible"),
        ("model.norm=middle", "model.norm", "'post' or 'pre'"),
        ("model.dropout=nan", "model.dropout", "found nan"),
        ("model.dropout=-0.1", "model.dropout", "found -0.1"),
        ("model.dropout=1.0", "model.dropout", "found 1.0"),
        ("train.learning_rate=inf", "train.learning_rate", "found inf"),
        ("train.learning_rate=-1", "train.learning_rate", "found -1"),
        ("train.max_minutes=nan", "train.max_minutes", "found nan"),
        ("train.max_updates=0", "train.max_updates", "found 0"),
        ("train.seed=-1", "train.seed", "found -1"),
        (f"train.seed={2**70}", "train.seed", "expected 9,223,372,036,854,775,807 or less"),
        (f"train.batch_tokens={10**30}", "train.batch_tokens", "2,147,483,647 or less"),
        (f"train.max_updates={10**30}", "train.max_updates", "2,147,483,647 or less"),
        (f"data.valid_size={10**30}", "data.valid_size", "2,147,483,647 or less"),
        (f"model.d_model={10**30}", "model.d_model", "65,536 or less"),
        (f"train.seed={'9' * 5000}", "train.seed", "found '999"),
        ("train.batch_tokens=100", "data.max_length", "train.batch_tokens 100"),
        ("train.keep_last=2", "keep_last", "average 5"),
        ("train.schedule=linear", "train.schedule", "'paper', 'inverse-sqrt' or 'cosine'"),
        ("tokenizer.vocab_size=-5", "tokenizer.vocab_size", "found -5"),
        ("tokenizer.joint=false", "tokenizer.joint", "two-way"),
        ("tokenizer.joint=1", "tokenizer.joint", "found 1"),
        ("decode.beam=0", "decode.beam", "found 0"),
        ("data.source=['a', 'b']", "source names 2", "target 0"),
        ("data.source=3", "data.source", "found 3"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    assignment: str, named: str, hint: str
) -> None:
    message = refusal(assignment)
    assert named in message and hint in message


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert "learning_rate" in refusal("train.schedule=paper", "train.learning_rate=0.1")
    assert "learning_rate" in refusal("train.learning_rate=0.1", preset="base")
    assert "learning_rate" in refusal("train.schedule=inverse-sqrt", preset="base")
    assert "sample" in refusal("decode.sample=true", "decode.beam=4")
    assert "learned" in refusal("model.positions=learned", "model.max_length=100")
    places = refusal(
        "model.attention=luong-location", "model.max_length=100",
        recipe={"model": {"architecture": "recurrent"}},
    )  # fmt: skip
    assert "the 100 source positions that luong-location knows (model.max_length)" in places


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


def test_a_memory_that_training_would_never_see_is_refused() -> None:
    recipe = {**TEXT, "model": "transformer-xl"}
    for assignments in (["data.context=64"], ["model.segment=256"]):
        message = refusal(*assignments, recipe=recipe)
        assert "model.memory; raise data.context, lower model.segment" in message
        compose(recipe=recipe, assignments=[*assignments, "model.memory=0"])
    compose(recipe=recipe, assignments=["data.context=65"])


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


def test_a_cosine_that_the_preset_does_not_have_needs_an_end() -> None:
    assert "needs max_updates" in refusal("schedule=cosine", "train.max_minutes=7")


def test_stated_budgets_add_up_over_the_layers() -> None:
    train = compose("tiny", {"train": {"max_epochs": 3}}, {"train": {"max_updates": 5}}).train
    assert (train.max_epochs, train.max_updates, train.max_minutes) == (3, 5, None)


@pytest.mark.parametrize("layer", ["recipe", "flags", "assignments"])
def test_the_papers_schedule_needs_no_peak_removed_from_a_preset(layer: str) -> None:
    table = {"train": {"schedule": "paper"}}
    above = {layer: ["train.schedule=paper"] if layer == "assignments" else table}
    assert compose("tiny", **above).train.learning_rate is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "preset"), EVERY)
def test_every_preset_is_a_whole_run_once_there_is_data(model: str, preset: str) -> None:
    recipe = compose(preset, {"model": model})
    recipe = compose(preset, {"model": model}, DATA if recipe.model.task == "translation" else TEXT)
    assert recipe.model.architecture == model
    assert recipe.data.files()
    assert compose(recipe=tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_recipe_is_a_recipe(path: Path) -> None:
    tables = read_toml(path)
    writes = tables.get("model", {}).get("architecture") == "language"
    recipe = compose(recipe=tables, flags=TEXT if writes else DATA, where=str(path))
    assert compose(recipe=tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("row", TABLE_3)
def test_every_row_of_table_3_is_a_recipe(row: str) -> None:
    base, recipe = compose("base", DATA), compose("base", DATA, assignments=TABLE_3[row])
    wanted = dict(assignment.split("=") for assignment in TABLE_3[row])
    for name, value in wanted.items():
        section = recipe.train if name == "label_smoothing" else recipe.model
        assert str(getattr(section, name.removeprefix("model."))) == value
    assert recipe != base
    assert compose(recipe=tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("preset", ["base", "big"])
def test_the_runs_of_the_paper_go_to_their_end(preset: str) -> None:
    """Table 3 is of 100,000 and 300,000 updates; nothing is said of stopping early."""
    assert compose(preset, flags=DATA).train.patience == 0
