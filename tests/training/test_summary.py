from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn

from crosshead.models.base import Model
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.registry import task_of
from crosshead.tasks.translation.parallel_corpus import ParallelCorpus as Corpus
from crosshead.training.context import Context
from crosshead.training.hardware import Machine
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import with_sizes
from crosshead.training.setup import Setup
from crosshead.training.summary import card_facts, opening_lines
from tests.tasks.reading import read_corpus

CPU = torch.device("cpu")
MACHINE = Machine(CPU, 1, torch.float32, "as asked")


def setup_of(recipe: Recipe, corpus: Corpus, progress: Progress | None = None) -> Setup:
    """The setup of a run, whose model has 1.23 million weights that nothing trains."""
    model = nn.Linear(1_230_000, 1, bias=False, device="meta")
    return Setup(
        task_of(recipe),
        recipe,
        MACHINE,
        corpus,
        cast(Model, model),
        Optimizer(model, recipe.train),
        progress or Progress(),
        Context(),
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recipe, Corpus]:
    """The settings and the text of a run whose files were named as `en` and `de`."""
    monkeypatch.chdir(tmp_path)
    lines = [f"one {word}" for word in "abcdefghijklmnopqrst"]
    Path("en").write_text("\n".join([*lines, " "]) + "\n")
    Path("de").write_text("\n".join([*lines, "x"]) + "\n")
    data = {"source": [str(tmp_path / "en")], "target": [str(tmp_path / "de")], "valid_size": 1}
    recipe = compose(flags={"data": data}, assignments=["tokenizer.kind=words", "decode.beam=7"])
    corpus = read_corpus(recipe, None, None)
    return with_sizes(corpus.completed(recipe), corpus.epochs(recipe)(0)), corpus


def test_the_first_lines_say_what_was_chosen(run: tuple[Recipe, Corpus]) -> None:
    recipe, corpus = run
    text, sizes, machine, budget, warning = opening_lines(setup_of(recipe, corpus))
    assert text.startswith("19 pairs to train on (left out: empty side 1; see left-out.tsv); ")
    assert text.endswith("validation: 1 pair held out of the training files (held-out.tsv)")
    assert sizes == (
        f"transformer, 1.23 M parameters, vocabulary {corpus.source_tokenizer.vocab_size}, "
        "batches of 4,096 tokens, warm-up of 200 updates, validation every 200 updates"
    )
    assert machine.startswith("on cpu, 1 thread, float32 (as asked)")
    assert budget == ("training ends after 30,000 updates or 10 validations without improvement")
    assert warning.startswith("warning: from 19 pairs a model only learns to repeat them; ")


def test_the_card_names_files_as_they_were_typed(run: tuple[Recipe, Corpus]) -> None:
    recipe, corpus = run
    progress = Progress(
        update=7, longest_input=5, commands=["begin", "", "go on"], names=["en", "de"]
    )
    setup = setup_of(recipe, corpus, progress)
    facts = card_facts(setup, Path("out"), "the best", [], "beam 7, length penalty 0.6")
    assert [file.path for file in facts.files] == ["en", "de"]
    assert '"en",' in facts.recipe and str(Path.cwd()) not in facts.recipe
    assert facts.commands == ["begin", "go on"]  # a library's call types nothing
    assert (facts.size, facts.updates, facts.search) == (19, 7, "beam 7, length penalty 0.6")
