from pathlib import Path

import pytest

from crosshead.models.encoder_only import EncoderConfig
from crosshead.models.language import LanguageConfig
from crosshead.recipe.compose import compose
from crosshead.tasks.registry import TASKS
from tests.bundle.text_bundles import SMALL, bundle_of
from tests.recipe.refusing import TEXT, refusal
from tests.tasks.reading import read_corpus
from tests.tasks.validators import WRITTEN, validator_of, weights


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
@pytest.mark.parametrize("architecture", ["language", "encoder"])
def test_samples_of_text_stand_beside_the_text(
    tmp_path: Path, architecture: str, kind: str
) -> None:
    more = ["tokenizer.vocab_size=290"] if kind == "bpe" else []
    settings = [f"architecture={architecture}", f"tokenizer.kind={kind}", *more]
    (tmp_path / "text").write_text(WRITTEN.replace(" and ", " and then they said "))
    names = [str(tmp_path / "text")]
    recipe = compose(
        flags={"data": {"text": names, "valid_text": names, "context": 64}},
        assignments=["layers=1", "d_model=16", "d_ff=16", "heads=2", *settings],
    )
    corpus = read_corpus(recipe, None, None)
    validator = validator_of(recipe, corpus, corpus.longest_input)
    found = validator.findings(weights(validator, 1))
    text = " ".join(WRITTEN.replace(" and ", " and then they said ").split())
    assert found.samples
    for given, made, wanted, _ in found.samples:
        assert " ".join(wanted.split()) in text
        if architecture == "encoder":
            assert given.count("[MASK]") == 1 and "[MASK]" not in made
            before, after = given.split("[MASK]")
            assert wanted.startswith(before) and wanted.endswith(after)
        else:
            assert " ".join(given.split()) in text
            assert made
    [fault] = found.faults  # nothing was learned
    assert "token frequencies" in fault


def test_a_memory_that_training_would_never_see_is_refused() -> None:
    recipe = {**TEXT, "model": "transformer-xl"}
    for assignments in (["data.context=64"], ["model.segment=256"]):
        message = refusal(*assignments, recipe=recipe)
        assert "model.memory; raise data.context, lower model.segment" in message
        compose(recipe=recipe, assignments=[*assignments, "model.memory=0"])
    compose(recipe=recipe, assignments=["data.context=65"])


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            ["data.source=['a']", "data.target=['b']"],
            "data.source is for translation; a model of monolingual text (language) is trained on "
            "data.text",
        ),
        (
            ["data.context=128", "train.batch_tokens=100"],
            "data.context 128 does not fit into train.batch_tokens 100; lower the first or raise",
        ),
        (
            ["positions=learned", "model.max_length=64", "data.context=65"],
            "data.context 65 is more than the 64 learned positions of model.max_length",
        ),
        (["tokenizer.joint=false"], "monolingual text has one side: set tokenizer.joint = true"),
        (["data.share=0.5"], "data.share is for pairs of texts; leave it out"),
        (["data.fold=[1, 2]"], "data.fold is for pairs of texts; leave it out"),
        (["tokenizer.sampling=0.1"], "tokenizer.sampling is for translation; leave it out"),
    ],
)
def test_settings_that_do_not_suit_monolingual_text_are_refused(
    assignments: list[str], message: str
) -> None:
    assert message in refusal(*assignments, recipe={**TEXT, "model": "language"})


def test_as_many_tokens_as_fit_are_accepted() -> None:
    fitting = ["positions=learned", "model.max_length=64", "data.context=64"]
    fitting.append("train.batch_tokens=64")
    assert compose(recipe={**TEXT, "model": "language"}, assignments=fitting).data.context == 64


@pytest.mark.parametrize("task", ["language", "masked"])
def test_fine_tuning_keeps_the_length_of_windows(task: str) -> None:
    shape = LanguageConfig if task == "language" else EncoderConfig
    bundle = bundle_of(target=None, model=shape(layers=1, **SMALL), longest=48)
    assert TASKS[task].sections(bundle)["data"]["context"] == 48
