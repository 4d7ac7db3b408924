from pathlib import Path

import pytest

from crosshead.tasks.recipes import compose
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
    validator = validator_of(recipe, corpus, corpus.reach)
    found = validator.findings(weights(validator, 1))
    text = " ".join(WRITTEN.replace(" and ", " and then they said ").split())
    assert found.samples
    for given, made, wanted in found.samples:
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
        assert "model.memory; raise data.context above model.segment, lower" in message
        compose(recipe=recipe, assignments=[*assignments, "model.memory=0"])
    compose(recipe=recipe, assignments=["data.context=65"])
