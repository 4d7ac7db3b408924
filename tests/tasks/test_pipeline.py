from types import SimpleNamespace
from typing import Any

import pytest
import torch

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from crosshead.models.language import LanguageConfig
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.masked.mask_filler import MaskFiller
from crosshead.tasks.pipeline import Pipeline, TextPipeline
from crosshead.tasks.registry import TASKS
from tests.bundle.text_bundles import SMALL, bundle_of
from tests.inspection.pipelines import pipeline_of


class Counter(Pipeline):
    does, verb, usage = "counts things", "count", "{command} {bundle}"

    @classmethod
    def words(cls, config: Any) -> Words:
        raise NotImplementedError


class Reader(TextPipeline):
    does, verb, usage = "reads text", "read", "{command} {bundle}"

    @classmethod
    def words(cls, config: Any) -> Words:
        raise NotImplementedError


def with_config(bundle: TextBundle, **values: Any) -> TextBundle:
    config = bundle.config.model_copy(update=values)
    return TextBundle(config, bundle.model, bundle.source_tokenizer, bundle.target_tokenizer)


def test_a_pipeline_has_the_model_of_its_bundle_and_is_where_the_model_is() -> None:
    model = torch.nn.Linear(2, 2, device="meta")
    pipeline = Counter(SimpleNamespace(model=model))
    assert pipeline.model is model and pipeline.device == torch.device("meta")
    assert pipeline.facts() == []


def test_a_pipeline_that_reads_no_text_says_what_it_does() -> None:
    with pytest.raises(ConfigError, match="this model counts things: it reads no text"):
        Counter(SimpleNamespace()).attention_inputs("text", None, "encoder")


def test_a_pipeline_without_words_for_its_card_is_none() -> None:
    with pytest.raises(TypeError, match="words"):
        type("Silent", (Pipeline,), {})(SimpleNamespace())


@pytest.mark.parametrize(
    ("bundle", "vocabulary"),
    [
        (bundle_of("ab", "cde"), "characters, 6 pieces; characters, 7 pieces"),
        (bundle_of("ab", None), "characters, 6 pieces for both sides"),
        (
            bundle_of("ab", None, LanguageConfig(layers=1, **SMALL)),
            "characters, 6 pieces",
        ),
    ],
)
def test_the_facts_name_the_tokenizers(bundle: TextBundle, vocabulary: str) -> None:
    assert Reader(bundle).facts() == [["tokenizer", vocabulary]]


@pytest.mark.parametrize(
    ("languages", "shown"),
    [(("en", "de"), "en to de"), (("en", None), "en to unknown"), ((None, "de"), "unknown to de")],
)
def test_the_facts_name_languages_that_are_known(
    languages: tuple[str | None, str | None], shown: str
) -> None:
    source, target = languages
    bundle = with_config(bundle_of(), source_language=source, target_language=target)
    assert Reader(bundle).facts()[1:] == [["languages", shown]]


def test_text_is_read_by_the_tokenizer_of_the_target_side_and_as_far_as_in_training() -> None:
    bundle = bundle_of("ab", "cde", longest=17)
    assert Reader(bundle).tokenizer is bundle.target_tokenizer
    assert Reader(bundle).context == 17


@pytest.mark.parametrize("name", ["language", "encoder"])
def test_monolingual_text_has_the_same_pieces_as_queries_and_keys_and_no_target(name: str) -> None:
    pipeline = pipeline_of(name)
    assert isinstance(pipeline, TextGenerator | MaskFiller)
    [kind] = pipeline.model.attentions()
    found = pipeline.attention_inputs("to be", None, kind)
    assert found.queries == found.keys and "".join(found.queries).strip() != ""
    assert found.inputs[0].shape == (1, len(found.keys))
    with pytest.raises(ConfigError, match="it does not translate; leave the target out"):
        pipeline.attention_inputs("to be", "or not", kind)


@pytest.mark.parametrize("task", TASKS)
def test_every_pipeline_says_what_it_does_and_how_it_is_used(task: str) -> None:
    pipeline = TASKS[task].pipeline
    assert pipeline.does and pipeline.verb.isalpha()
    shown = pipeline.usage.format(command=f"crosshead {pipeline.verb}", bundle="runs/x")
    assert f"crosshead {pipeline.verb}" in shown and "runs/x" in shown
