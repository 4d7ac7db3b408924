"""The one place that builds machine, model and optimizer of a run."""

from pathlib import Path

import pytest
import torch

from crosshead.errors import ConfigError
from crosshead.training import hardware
from crosshead.training.context import Context
from crosshead.training.distributed import ALONE, World
from crosshead.training.hardware import FreeMemory, Machine
from crosshead.training.setup import build
from tests.tasks.reading import read_corpus
from tests.training.runs import recipe_for

MACHINE = Machine(torch.device("cpu"), 1, torch.float32, "as asked")


def test_a_model_that_cannot_fit_is_refused_before_it_is_built(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_for(text, "d_model=64")
    corpus = read_corpus(recipe, None, None)
    parameters = build(recipe, MACHINE, corpus, Context()).optimizer.size()
    free = FreeMemory(16 * parameters - 1, "what is there")
    monkeypatch.setattr(hardware, "free_memory", lambda *machine: free)
    four = World(0, 4, 0, 4)
    for world, advice in ((ALONE, "smaller model"), (four, "smaller model, or set train.sharded")):
        with pytest.raises(
            ConfigError,
            match=rf"^a model of 0\.\d M parameters needs more than 0\.0 GB of .*{advice}$",
        ):
            build(recipe, MACHINE, corpus, Context(world))
    shares = recipe.model_copy(update={"train": recipe.train.model_copy(update={"sharded": True})})
    monkeypatch.setattr("crosshead.training.setup.shard", lambda model: None)
    assert build(shares, MACHINE, corpus, Context(four)).progress.processes == 4
