import dataclasses
from pathlib import Path
from typing import Any

import pytest

from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.settings import DecodeConfig
from crosshead.recipe.compose import Below, compose
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenCorpus, TokenTask
from crosshead.text.tokenizers import load_tokenizers
from tests.bundle.text_bundles import bundle_of
from tests.recipe.refusing import DATA
from tests.tasks.reading import read_corpus

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


@pytest.mark.parametrize("task", ["translation", "language", "masked"])
def test_the_tasks_on_text_share_the_loss_of_tokens(task: str) -> None:
    assert isinstance(TASKS[task], TokenTask)
    assert TASKS[task].loss is token_loss
    assert (TASKS[task].units, TASKS[task].counter) == ("tokens", "target_tokens")


def test_fine_tuning_has_the_model_and_the_tokenizer_of_its_bundle() -> None:
    bundle = load_bundle(STORED)
    sections = {**compose().model_dump(), **TASKS["translation"].sections(bundle)}
    recipe = compose(recipe=DATA, below=Below(sections))
    assert recipe.model == bundle.config.model
    tokenizer = bundle.source_tokenizer
    assert recipe.tokenizer.kind == tokenizer.kind
    assert recipe.tokenizer.vocab_size == tokenizer.vocab_size == bundle.config.source_vocabulary
    assert recipe.tokenizer.joint == bundle.config.joint_tokenizer
    assert recipe.data.source_language == bundle.config.source_language
    assert recipe.data.target_language == bundle.config.target_language


@pytest.mark.parametrize("target", [None, "cde"])
def test_separate_tokenizers_stay_separate(target: str | None) -> None:
    found = TASKS["translation"].sections(bundle_of(target=target))
    assert found["tokenizer"]["joint"] == (target is None)
    assert found["tokenizer"]["kind"] == "characters" and found["tokenizer"]["special"] == []


@pytest.mark.parametrize("task", ["translation", "language", "masked"])
def test_fine_tuning_has_the_search_of_its_bundle_unless_another_is_stated(task: str) -> None:
    decode = DecodeConfig(beam=7, length_penalty=0.3, length_offset=0, stop="last", max_extra=9)
    bundle = bundle_of()
    config = bundle.config.model_copy(update={"decode": decode})
    below = TASKS[task].sections(dataclasses.replace(bundle, config=config))
    assert DecodeConfig.model_validate(below["decode"]) == decode
    given = Below({"decode": below["decode"]})
    assert compose(recipe=DATA, below=given).decode == decode
    stated = compose(recipe=DATA, below=given, assignments=["decode.beam=2"]).decode
    assert stated == decode.model_copy(update={"beam": 2})


def read(folder: Path, joint: bool) -> tuple[Any, TokenCorpus]:
    (folder / "a.en").write_text("".join(f"a {number}\n" for number in range(40)))
    (folder / "a.de").write_text("".join(f"bcd {number} e\n" for number in range(40)))
    data = {"source": str(folder / "a.en"), "target": str(folder / "a.de"), "source_language": "en"}
    recipe = compose(
        flags={"data": data},
        assignments=["kind=characters", f"joint={str(joint).lower()}", "model.tie=two-way",
                     "encoder_layers=1", "decoder_layers=1", "d_model=8", "heads=2", "beam=3"],
    )  # fmt: skip
    return recipe, read_corpus(recipe)


@pytest.mark.parametrize(
    ("joint", "facts"), [(True, "vocabulary 20"), (False, "vocabulary 16 and 19")]
)
def test_the_bundle_of_a_run_has_its_tokenizers_and_settings(
    joint: bool, facts: str, tmp_path: Path
) -> None:
    recipe, corpus = read(tmp_path, joint)
    assert corpus.facts() == facts
    config = corpus.bundle_config(recipe, 12)
    assert (config.source_vocabulary, config.target_vocabulary) == (
        corpus.source_tokenizer.vocab_size, corpus.target_tokenizer.vocab_size,
    )  # fmt: skip
    assert (config.task, config.longest_source, config.joint_tokenizer) == (
        "translation",
        12,
        joint,
    )
    assert (config.model, config.decode) == (recipe.model, recipe.decode)
    assert (config.source_language, config.target_language) == ("en", None)
    bundle = corpus.bundle(config, TextBundle.build(config))
    assert bundle.source_tokenizer is corpus.source_tokenizer
    assert bundle.target_tokenizer is corpus.target_tokenizer


@pytest.mark.parametrize("joint", [True, False])
def test_resuming_finds_the_tokenizers(joint: bool, tmp_path: Path) -> None:
    _, corpus = read(tmp_path, joint)
    out = tmp_path / "run"
    out.mkdir()
    corpus.write_files(out, {each.path: each.path for each in corpus.files})
    found = load_tokenizers(out, joint=joint)
    for before, after in zip(
        (corpus.source_tokenizer, corpus.target_tokenizer), found, strict=True
    ):
        every = list(range(before.vocab_size))
        assert after.pieces(every) == before.pieces(every)


def test_the_recipe_has_the_size_that_was_chosen(tmp_path: Path) -> None:
    recipe, corpus = read(tmp_path, joint=True)
    assert recipe.tokenizer.vocab_size is None
    completed = corpus.completed(recipe)
    assert completed.tokenizer == corpus.tokenizer and completed.tokenizer.vocab_size is not None
    sections = recipe.model_dump() | {"tokenizer": corpus.tokenizer.model_dump()}
    assert completed.model_dump() == sections
