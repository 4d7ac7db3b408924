import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import pytest

from crosshead.bundle.config_file import load_config
from crosshead.errors import ConfigError, UserError
from crosshead.recipe.presets import Sections
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.stored import (
    absolute,
    check_fine_tuned,
    check_resumed,
    read_recipe,
)
from crosshead.recipe.toml import to_toml
from crosshead.tasks.registry import kinds, sections_of
from crosshead.training.directory import stored_recipe
from tests.recipe.composing import new_recipe, resumed_recipe

BUNDLE = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
DATA: Sections = {"data": {"source": ["a"], "target": ["b"]}}
KINDS = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
ALL_DATA: Sections = {"data": {key: [f"{key}.txt"] for key in KINDS}}


def test_a_recipe_that_ships_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "captions.toml").write_text("[train]\nmax_updates = 7\n")
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    assert read_recipe("captions") == {"train": {"max_updates": 7}}
    assert new_recipe(None, "captions", {}, ["train.seed=3"]).train.max_updates == 7
    with pytest.raises(ConfigError, match="no recipe 'caption'; did you mean 'captions'"):
        read_recipe("caption")


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_a_run_is_resumed_with_all_it_began_with(preset: str, tmp_path: Path) -> None:
    began = new_recipe(preset, None, {"train": {"seed": 9}}, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    assert resumed_recipe(tmp_path, None, {}, []) == began
    longer = resumed_recipe(tmp_path, None, {"train": {"max_updates": 5}}, [])
    assert longer.train.max_updates == 5
    assert longer.model == began.model


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nseed = 8\n", "train.seed is 8, but the run in .* began with 9"),
        ("[train]\nbatch_tokens = 999\n", "train.batch_tokens is 999"),
        ("[model]\nheads = 8\n", "model.heads is 8"),
        ("train = 8\n", "train is a section"),
        ("[model]\nheadz = 8\n", "unknown key 'model.headz'; did you mean 'heads'"),
    ],
)
def test_a_recipe_that_does_not_agree_is_refused(text: str, words: str, tmp_path: Path) -> None:
    began = new_recipe(None, None, {"train": {"seed": 9}}, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    (tmp_path / "other.toml").write_text(text)

    def resumed(name: str) -> Recipe:
        now = resumed_recipe(tmp_path, str(tmp_path / name), {}, [])
        return check_resumed(began, now, tmp_path)

    with pytest.raises(ConfigError, match=words):
        resumed("other.toml")
    (tmp_path / "same.toml").write_text("[train]\nseed = 9\nmax_epochs = 7\n")
    assert resumed("same.toml").train.max_epochs == 7


def test_there_is_no_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run with a checkpoint to resume"):
        resumed_recipe(tmp_path, None, {}, [])


@pytest.mark.parametrize(
    "assignment",
    ["max_updates=7", "max_epochs=7", "max_minutes=7", "patience=3", "log_every=7", "keep_last=6",
     "average=2", "device=cpu", "threads=3", "decode.beam=2", "source_language=en",
     "recompute=true", "cuda_graphs=true", "learning_rate=0.001", "guided_alignment=0.2",
     "data.source=['c']", "data.target=['c']",
     "valid_source=['c']", "valid_target=['c']", "data.pairs=['c']", "valid_pairs=['c']"],
)  # fmt: skip
def test_what_may_change_when_a_run_is_resumed(assignment: str, tmp_path: Path) -> None:
    began = new_recipe(None, None, ALL_DATA, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    now = resumed_recipe(tmp_path, None, {}, [assignment])
    assert now != began
    assert check_resumed(began, now, tmp_path) == now


@pytest.mark.parametrize(
    "assignment",
    ["train.seed=2", "train.batch_tokens=999", "train.warmup=3",
     "train.label_smoothing=0.2", "train.consistency=r-drop", "train.word_dropout=0.1",
     "train.ema=0.99", "train.clip_norm=0.5", "train.adam_beta2=0.9",
     "train.valid_every=7", "train.checkpoint_every=7", "train.metric=loss",
     "train.precision=float32", "data.max_ratio=2.0", "tokenizer.sampling=0.1",
     "model.dropout=0.5"],
)  # fmt: skip
def test_what_may_not_change_when_a_run_is_resumed(assignment: str, tmp_path: Path) -> None:
    began = new_recipe(None, None, DATA, ["precision=bfloat16"])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    now = resumed_recipe(tmp_path, None, {}, [assignment])
    key = assignment.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key} is .*, but the run in .* began with"):
        check_resumed(began, now, tmp_path)


def test_a_run_is_resumed_with_as_many_files_as_it_began_with(tmp_path: Path) -> None:
    began = new_recipe(None, None, DATA, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    for given in ({"source": ["a", "c"], "target": ["b", "d"]}, {"pairs": ["c"]}):
        now = resumed_recipe(tmp_path, None, {"data": given}, [])
        with pytest.raises(ConfigError, match=r"^data\.(source|pairs) is .*began with"):
            check_resumed(began, now, tmp_path)


def test_messages_about_files_show_them_as_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    began = new_recipe(None, None, {"data": {"source": "a b.en", "target": "a.de"}}, [])
    given = {"source": ["a b.en", "/c.en"], "target": ["a.de", "c.de"]}
    with pytest.raises(ConfigError) as caught:
        check_resumed(
            absolute(began), absolute(new_recipe(None, None, {"data": given}, [])), Path("run")
        )
    said = "data.source is a b.en, /c.en, but the run in run began with a b.en; "
    assert str(caught.value).startswith(said)


def test_the_same_settings_once_more_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text("[train]\nprecision = 'auto'\nmax_epochs = 30\n")
    given = str(tmp_path / "given.toml"), {"train": {"max_updates": 9}}, ["schedule=paper"]
    began = new_recipe("small", *given)
    # A run writes down what was chosen in the place of `auto`.
    sizes = {"precision": "bfloat16", "warmup": 250, "valid_every": 300}
    chosen = began.model_copy(
        update={
            "train": began.train.model_copy(update=sizes),
            "tokenizer": began.tokenizer.model_copy(update={"vocab_size": 700}),
        }
    )
    (tmp_path / "recipe.toml").write_text(to_toml(chosen))
    now = resumed_recipe(tmp_path, *given)
    assert check_resumed(chosen, now, tmp_path) == chosen
    # The same command as before leaves open what the run has chosen.
    assert check_resumed(chosen, began, tmp_path) == chosen


def test_a_new_budget_replaces_those_of_the_run(tmp_path: Path) -> None:
    began = new_recipe(None, None, {"train": {"max_updates": 5, "max_minutes": 2.0}}, [])
    (tmp_path / "recipe.toml").write_text(to_toml(began))
    train = resumed_recipe(tmp_path, None, {"train": {"max_epochs": 3}}, []).train
    assert (train.max_updates, train.max_minutes, train.max_epochs) == (None, None, 3)


def test_a_bundle_stands_in_the_place_of_the_presets_model() -> None:
    bundle = load_config(BUNDLE, kinds())[1]
    recipe = new_recipe("big", None, DATA, [], BUNDLE)
    assert recipe.model == bundle.model
    assert (recipe.tokenizer.vocab_size, recipe.tokenizer.kind) == (330, "bpe")
    assert recipe.train == new_recipe("big", None, DATA, []).train
    assert (recipe.data.source_language, recipe.data.target_language) == ("en", "de")


def bundle_sections() -> Sections:
    return sections_of(BUNDLE)


@pytest.mark.parametrize(
    "assignment",
    ["model.d_ff=32", "model.encoder_layers=2", "model.norm=post", "model.norm_eps=1e-6",
     "model.start=pad", "tokenizer.kind=unigram", "tokenizer.vocab_size=9",
     "tokenizer.special=['<x>']"],
)  # fmt: skip
def test_fine_tuning_refuses_another_model_or_tokenizer(assignment: str) -> None:
    recipe = new_recipe(None, None, DATA, [assignment], BUNDLE)
    key = assignment.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{key} is .*leave {key} out$"):
        check_fine_tuned(bundle_sections(), recipe, BUNDLE)


def test_fine_tuning_may_drop_and_sample_otherwise_and_repeat_what_is_so() -> None:
    stated = ["model.dropout=0.2", "attention_dropout=0.1", "activation_dropout=0.1",
              "sampling=0.1", "d_model=32", "tokenizer.vocab_size=330"]  # fmt: skip
    recipe = new_recipe(None, None, DATA, stated, BUNDLE)
    check_fine_tuned(bundle_sections(), recipe, BUNDLE)
    assert (recipe.model.dropout, recipe.tokenizer.sampling) == (0.2, 0.1)


@pytest.mark.parametrize(
    "data",
    [
        {"source": ["x.de"], "target": ["x.en"]},
        {"pairs": ["x.tsv"], "fields": ["de", "en"]},
        {"pairs": ["x.jsonl"], "fields": ["t.de", "t.en"]},
        DATA["data"] | {"source_language": "de", "target_language": "en"},
    ],
)
def test_fine_tuning_refuses_the_reverse_direction(data: dict[str, Any]) -> None:
    recipe = new_recipe(None, None, {"data": data}, [], BUNDLE)
    with pytest.raises(ConfigError, match=r" from de to en, but the bundle .* from en "):
        check_fine_tuned(bundle_sections(), recipe, BUNDLE)


def test_fine_tuning_takes_other_names_and_bundles_of_several_or_unknown_languages() -> None:
    reverse: dict[str, Any] = {"source": ["x.de"], "target": ["x.en"]}
    for data in (
        {"source": ["x.en"], "target": ["x.de"]},
        {"source": ["x.de"], "target": ["x.txt"]},
        {"source": ["x.nl"], "target": ["x.en"]},
        reverse | {"directions": "tagged"},
    ):
        recipe = new_recipe(None, None, {"data": data}, [], BUNDLE)
        check_fine_tuned(bundle_sections(), recipe, BUNDLE)
    sections = bundle_sections()
    sections["data"]["source_language"] = None
    check_fine_tuned(sections, new_recipe(None, None, {"data": reverse}, [], BUNDLE), BUNDLE)


TEXT: Sections = {"data": {"text": ["a"]}}


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A bundle of a model of text with 64 learned positions, which read 48 tokens at once."""
    stored = json.loads((BUNDLE / "config.json").read_text())
    shape = {"architecture": "language", "d_model": 32, "layers": 1, "d_ff": 8, "heads": 2}
    model = {**shape, "positions": "learned", "max_length": 64}
    (tmp_path / "reader").mkdir()
    for path in BUNDLE.iterdir():
        (tmp_path / "reader" / path.name).write_bytes(path.read_bytes())
    stored |= {"task": "language", "model": model, "longest_source": 48}
    (tmp_path / "reader" / "config.json").write_text(json.dumps(stored))
    return tmp_path / "reader"


def test_fine_tuning_takes_the_preset_tiny_if_none_is_stated() -> None:
    tuned = new_recipe("auto", None, DATA, [], BUNDLE)
    assert tuned == new_recipe("tiny", None, DATA, [], BUNDLE)
    assert tuned.train.learning_rate == 0.004


def test_a_text_is_read_on_as_the_bundle_has_read(reader: Path) -> None:
    assert new_recipe(None, None, TEXT, [], reader).data.context == 48
    assert new_recipe(None, None, TEXT, []).data.context == 256


def test_another_context_may_be_stated(reader: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.toml"
    given.write_text("[data]\ncontext = 32\n")
    assert new_recipe(None, str(given), TEXT, [], reader).data.context == 32
    flags = {"data": {**TEXT["data"], "context": 40}}
    assert new_recipe(None, str(given), flags, [], reader).data.context == 40
    assert new_recipe(None, str(given), flags, ["context=64"], reader).data.context == 64
    with pytest.raises(ConfigError, match="context 65 is more than the 64 learned positions"):
        new_recipe(None, None, TEXT, ["context=65"], reader)


@pytest.mark.parametrize("layer", ["file", "flags", "assignments"])
def test_another_architecture_is_refused_by_its_name(
    layer: str, reader: Path, tmp_path: Path
) -> None:
    """And not by a key of the model that the other one does not have."""
    file, flags, assignments = None, dict(TEXT), []
    if layer == "file":
        (tmp_path / "xl.toml").write_text('model = "transformer-xl"\n')
        file = str(tmp_path / "xl.toml")
    elif layer == "flags":
        flags["model"] = {"architecture": "transformer-xl"}
    else:
        assignments = ["model.architecture=transformer-xl"]
    tuned = (
        f"model.architecture is 'transformer-xl', but the bundle {reader} has 'language'; leave it "
        "out"
    )
    with pytest.raises(ConfigError, match=f"^({file}: )?{re.escape(tuned)}$"):
        new_recipe(None, file, flags, assignments, reader)
    (tmp_path / "recipe.toml").write_text(to_toml(new_recipe(None, None, TEXT, [])))
    with pytest.raises(ConfigError, match=r"model\.architecture is .* in .* has 'language'; "):
        resumed_recipe(tmp_path, file, flags, assignments)


def test_the_same_architecture_may_be_stated(reader: Path) -> None:
    stated = {**TEXT, "model": {"architecture": "language"}}
    assert new_recipe(None, None, stated, [], reader) == new_recipe(None, None, TEXT, [], reader)


def test_a_run_is_trained_on_other_text_from_its_bundle(tmp_path: Path) -> None:
    began = new_recipe(None, None, DATA, [])
    more = new_recipe(None, None, {"data": {"source": ["a", "c"], "target": ["b", "d"]}}, [])
    with pytest.raises(ConfigError, match=r"data\.source is .*--from"):
        check_resumed(began, more, tmp_path)


def test_files_are_named_by_text_or_by_paths(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text("[train]\nseed = 3\n")
    paths = {"data": {"source": Path("a"), "target": [Path("b")]}}
    by_paths = new_recipe(None, tmp_path / "given.toml", paths, [], BUNDLE)
    assert by_paths == new_recipe(None, str(tmp_path / "given.toml"), DATA, [], str(BUNDLE))
    (tmp_path / "recipe.toml").write_text(to_toml(by_paths))
    assert stored_recipe(str(tmp_path)) == stored_recipe(tmp_path)
    assert resumed_recipe(str(tmp_path), None, {}, []).train.seed == 3


def test_an_unknown_architecture_in_a_stored_recipe_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('[model]\narchitecture = "transfor-er"\n')
    with pytest.raises(ConfigError, match=r"recipe\.toml: model\.architecture: unknown archi"):
        stored_recipe(tmp_path)
