import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.toml import read_toml, to_toml
from tests.recipe.refusing import DATA, IMAGES, TEXT, refusal

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


@pytest.mark.parametrize(
    ("assignment", "named", "hint"),
    [
        ("model.haeds=8", "model.haeds", "did you mean 'heads'?"),
        ("haeds=8", "haeds", "did you mean 'heads'?"),
        ("modle.heads=8", "modle", "did you mean 'model'?"),
        ("model.heads", "model.heads", "section.key=value"),
        ("model.heads\nx", r"model.heads\nx", "section.key=value"),
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
        (
            "train.schedule=linear",
            "train.schedule",
            "'paper', 'inverse-sqrt', 'cosine' or 'constant'",
        ),
        ("tokenizer.vocab_size=-5", "tokenizer.vocab_size", "found -5"),
        ("tokenizer.joint=false", "tokenizer.joint", "two-way"),
        ("tokenizer.joint=1", "tokenizer.joint", "found 1"),
        ("decode.beam=0", "decode.beam", "found 0"),
        ("data.source=['a', 'b']", "data.source names 2 files but data.target 0", "data.target"),
        ("data.source=3", "data.source", "found 3"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    assignment: str, named: str, hint: str
) -> None:
    message = refusal(assignment)
    assert named in message and hint in message


def test_settings_of_a_section_that_contradict_each_other_are_refused() -> None:
    assert "sample" in refusal("decode.sample=true", "decode.beam=4")
    assert "learned" in refusal("model.positions=learned", "model.max_length=100")
    places = refusal(
        "model.attention=luong-location", "model.max_length=100",
        recipe={"model": {"architecture": "recurrent"}},
    )  # fmt: skip
    assert "the 100 source positions that luong-location knows (model.max_length)" in places


@pytest.mark.parametrize(
    ("assignment", "hint"),
    [
        ("train.dropout=0.3", "did you mean 'model.dropout'?"),
        ("train.max_length=9", "did you mean 'data.max_length' or 'model.max_length'?"),
        ("model.lr=1", "did you mean 'train.learning_rate'?"),
        ("label=0.1", "did you mean 'label_smoothing'?"),
        ("lang=en", "did you mean 'source_language' or 'target_language'?"),
        ("encoder_dropout=0.1", "did you mean 'dropout'?"),
        ("lowercase=1", "`crosshead recipe --explain` lists the keys"),
        ("train.lowercase=1", "`crosshead recipe --explain train` lists the keys"),
        ("tokenizer.lowercase=1", "known: joint, kind, sampling, special, vocab_size"),
    ],
)
def test_an_unknown_key_is_answered_with_the_keys_that_it_may_mean(
    assignment: str, hint: str
) -> None:
    assert refusal(assignment).endswith(f"; {hint}")


def test_a_key_outside_of_its_section_is_named_with_it() -> None:
    message = refusal(recipe={"max_updates": 3})
    assert message == "unknown section 'max_updates'; did you mean 'train.max_updates'?"


@pytest.mark.parametrize(("model", "preset"), EVERY)
def test_every_preset_is_a_whole_run_once_there_is_data(model: str, preset: str) -> None:
    recipe = compose(preset, {"model": model})
    data = {
        "translation": DATA,
        "forecasting": {"data": {"series": "series.csv"}},
        "classification": IMAGES,
        "captioning": {"data": {"images": "images", "captions": "captions.jsonl"}},
        "multimodal": {"data": {"images": "images", "pairs": "pairs.jsonl"}},
    }
    recipe = compose(preset, {"model": model}, data.get(recipe.model.task, TEXT))
    assert recipe.model.architecture == model
    assert recipe.data.files()
    assert compose(recipe=tomllib.loads(to_toml(recipe))) == recipe.opened(())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_recipe_is_a_recipe(path: Path) -> None:
    tables = read_toml(path)
    given = {"language": TEXT, "vit": IMAGES}
    flags = given.get(tables.get("model", {}).get("architecture"), DATA)
    recipe = compose(recipe=tables, flags=flags, where=str(path))
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
