from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, Literal

import pytest

from crosshead.addons.series.series_corpus import SeriesCorpus
from crosshead.addons.vision.classification import ImageCorpus
from crosshead.addons.vision.image_text_corpus import CaptionCorpus, ImagePairCorpus
from crosshead.bundle.card import front_matter, use
from crosshead.models.base import SequenceModel
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.registry import CONFIGS, MODELS
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import TASKS, register_architecture
from crosshead.tasks.text_corpus import MaskedCorpus, TextCorpus
from crosshead.tasks.translation.parallel_corpus import ParallelCorpus
from tests.addons.vision.drawn_images import write_images
from tests.tasks.reading import read_corpus
from tests.text.written import write_captions, write_image_pairs, write_series

KINDS = {
    "translation": ParallelCorpus,
    "language": TextCorpus,
    "masked": MaskedCorpus,
    "forecasting": SeriesCorpus,
    "classification": ImageCorpus,
    "captioning": CaptionCorpus,
    "multimodal": ImagePairCorpus,
}


def test_every_task_has_models_and_is_described() -> None:
    assert TASKS.keys() == {config.task for config in CONFIGS.values()}
    fronts = set()
    for name, task in TASKS.items():
        assert name == task.name and CONFIGS[task.architecture].task == name
        config = SimpleNamespace(source_language="en", target_language=None, target_languages=[])
        words = task.pipeline.words(config)
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
    write_series(Path("series.csv"))
    write_captions(Path(), 4)
    write_image_pairs(Path(), 4)
    task = config.task  # type: ignore[attr-defined]
    architecture = config.model_fields["architecture"].default  # type: ignore[attr-defined]
    recipe = compose(
        recipe={
            "data": {
                "translation": pairs,
                "forecasting": {"series": ["series.csv"], "context": 24, "horizon": 3},
                "classification": {"images": [str(write_images(tmp_path / "set"))]},
                "captioning": {"images": ["images"], "captions": ["captions.jsonl"]},
                "multimodal": {"images": ["images"], "pairs": ["pairs.jsonl"]},
            }.get(task, {"text": ["a"]}),
            "model": architecture,
            "tokenizer": {}
            if task in ("forecasting", "classification")
            else {"kind": "characters"},
        }
    )
    assert type(read_corpus(recipe, None, None)) is KINDS[task]


class OwnConfig(LanguageConfig):
    architecture: Literal["own"] = "own"  # type: ignore[assignment]


class StrangeConfig(OwnConfig):
    task: ClassVar[str] = "strange"


def test_a_registered_architecture_has_the_presets_of_its_task_or_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for table in (CONFIGS, MODELS, PRESETS):
        monkeypatch.setitem(table, "own", None)
        del table["own"]
    register_architecture(OwnConfig, TransformerLanguageModel)
    data = {"data": {"text": ["a"]}}
    recipe = compose("tiny", {"model": "own"}, data)
    assert recipe.model == OwnConfig()
    assert recipe.train == compose("tiny", {"model": "language"}, data).train
    assert MODELS["own"] is TransformerLanguageModel
    own = {"wide": {"model": {"d_model": 32}, "train": {"max_updates": 3, "learning_rate": 0.1}}}
    register_architecture(OwnConfig, TransformerLanguageModel, own)
    recipe = compose("wide", {"model": "own"}, data)
    assert (recipe.model.d_model, recipe.train.max_updates) == (32, 3)


def test_an_architecture_of_an_unknown_task_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown task 'strange'; known: 'translation'"):
        register_architecture(StrangeConfig, TransformerLanguageModel)
    assert "own" not in CONFIGS


def test_what_is_no_architecture_is_refused_at_its_registration() -> None:
    class Taken(LanguageConfig):
        architecture: Literal["transformer"] = "transformer"  # type: ignore[assignment]

    class Incomplete(SequenceModel):
        pass

    known = dict(CONFIGS)
    with pytest.raises(ValueError, match="there is an architecture 'transformer' already"):
        register_architecture(Taken, TransformerLanguageModel)
    with pytest.raises(TypeError, match="derived from ModelConfig"):
        register_architecture(TransformerLanguageModel, LanguageConfig)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Incomplete must define features, start, step"):
        register_architecture(LanguageConfig, Incomplete)
    assert known == CONFIGS
    register_architecture(LanguageConfig, TransformerLanguageModel, PRESETS["language"])
