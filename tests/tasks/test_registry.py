from pathlib import Path
from typing import get_args

import pytest
from crosshead.pipelines.loading import PIPELINES

from crosshead.bundle.card import front_matter, use
from crosshead.models.base import Task
from crosshead.models.registry import CONFIGS
from crosshead.tasks.parallel_corpus import ParallelCorpus
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import TASKS, read_corpus
from crosshead.tasks.text_corpus import MaskedCorpus, TextCorpus

KINDS = {"translation": ParallelCorpus, "language": TextCorpus, "masked": MaskedCorpus}


def test_every_task_is_read_judged_used_and_described() -> None:
    tasks = set(get_args(Task))
    assert tasks == TASKS.keys() == PIPELINES.keys() == {config.task for config in CONFIGS.values()}
    verbs = {task: pipeline.verb for task, pipeline in PIPELINES.items()}
    for task in get_args(Task):
        assert f"crosshead {verbs[task]} DIR" in use(task)
    assert len({front_matter("m", task=task) for task in get_args(Task)}) == len(tasks)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=lambda config: config.__name__)
def test_data_are_read_as_the_task_of_the_model_says(
    config: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text("".join(f"{name} {number}\n" for number in range(200)))
    pairs = {"source": ["a"], "target": ["b"], "valid_source": ["a"], "valid_target": ["b"]}
    task = config.task  # type: ignore[attr-defined]
    architecture = config.model_fields["architecture"].default  # type: ignore[attr-defined]
    recipe = compose(
        recipe={
            "data": pairs if task == "translation" else {"text": ["a"]},
            "model": architecture,
            "tokenizer": {"kind": "characters"},
        }
    )
    assert type(read_corpus(recipe, None, None)) is KINDS[task]
