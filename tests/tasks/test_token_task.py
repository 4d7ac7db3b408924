import dataclasses
from pathlib import Path

import pytest

from crosshead.decoding.search import DecodeConfig
from crosshead.recipe.compose import Below, compose
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenTask, licence_lines
from tests.bundle.text_bundles import bundle_of
from tests.recipe.refusing import DATA

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


@pytest.mark.parametrize("licence", [None, "cc-by-4.0", "openrail++", "lppl-1.3c", "other"])
def test_a_licence_that_hubs_spell_so_brings_no_warning(licence: str | None) -> None:
    assert licence_lines(licence) == []


@pytest.mark.parametrize(
    ("licence", "instead"),
    [("CC BY 4.0", "cc-by-4.0"), ("MIT", "mit"), ("Apache_2.0", "apache-2.0"), ("© me", "other")],
)
def test_another_spelling_of_a_licence_brings_a_warning(licence: str, instead: str) -> None:
    [line] = licence_lines(licence)
    assert line.startswith(f"warning: the licence {licence!r} is no identifier of model hubs")
    assert line.endswith(f"write --license {instead}")
    data = {"data": {**DATA["data"], "license": licence}}
    recipe = compose(recipe=data)
    assert line in TASKS["translation"].prepare(recipe)[1]
