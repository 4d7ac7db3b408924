from pathlib import Path
from types import SimpleNamespace

import pytest

from crosshead.bundle.card import front_matter, use
from crosshead.models.registry import CONFIGS
from crosshead.tasks.parallel_corpus import ParallelCorpus
from crosshead.tasks.recipes import compose
from crosshead.tasks.registry import TASKS
from crosshead.tasks.text_corpus import MaskedCorpus, TextCorpus
from tests.tasks.reading import read_corpus

KINDS = {"translation": ParallelCorpus, "language": TextCorpus, "masked": MaskedCorpus}


def test_every_task_has_models_and_is_described() -> None:
    assert TASKS.keys() == {config.task for config in CONFIGS.values()}
    fronts = set()
    for name, task in TASKS.items():
        assert name == task.name and CONFIGS[task.architecture].task == name
        words = task.pipeline.words(SimpleNamespace(source_language="en", target_language=None))
        assert f"crosshead {task.pipeline.verb} DIR" in use(words)
        assert "{bundle}" in task.pipeline.usage and "{command}" in task.pipeline.usage
        assert task.chooses in [metric.name for metric in task.metrics]
        fronts.add(front_matter("m", words))
    assert len(fronts) == len(TASKS)


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
