from pathlib import Path
from typing import Any

import pytest

from crosshead.bundle.text_bundle import TextBundle
from crosshead.recipe.compose import compose
from crosshead.tasks.token_corpus import TokenCorpus
from crosshead.text.tokenizers import load_tokenizers
from tests.tasks.reading import read_corpus


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
