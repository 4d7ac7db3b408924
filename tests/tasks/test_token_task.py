from pathlib import Path

import pytest

from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenTask
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
    recipe = compose(
        recipe=DATA, below={**compose().model_dump(), **TASKS["translation"].sections(bundle)}
    )
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
