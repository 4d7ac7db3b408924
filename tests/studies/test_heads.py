from pathlib import Path

import pytest

from crosshead.bundle import build_model
from crosshead.studies import heads
from crosshead.studies.captions import Corpus, kept_in, made_up, run_name, transformer
from crosshead.studies.heads import (
    CROSSED,
    DECODER,
    ENCODER,
    attentions,
    average,
    kind,
)
from crosshead.studies.study import Say
from crosshead.training.recipe import Recipe


def test_every_attention_is_of_one_kind() -> None:
    model = build_model(transformer(quick=True), 20, 20)
    found = attentions(model)
    assert [kind(name) for name in found] == [ENCODER, DECODER, CROSSED]
    assert list(found.values()) == [("encoder", 1), ("decoder", 1), ("cross", 1)]


def test_averages_are_over_the_heads_of_a_kind() -> None:
    costs = {
        "encoder.layers.0.attention": [1.0, 2.0],
        "encoder.layers.1.attention": [3.0, 6.0],
        "decoder.layers.0.cross_attention": [50.0, 70.0],
    }
    assert average(costs, ENCODER) == 3 and average(costs, CROSSED) == 60


def test_a_result_names_the_files_that_its_runs_are_kept_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, recipes = made_up(tmp_path / "text", 1), []

    def untrained(
        corpus: Corpus, given: dict[tuple[int, int], Recipe], say: Say
    ) -> dict[int, list[float]]:
        recipes.extend(given.values())
        return {heads: [1.0, 2.0] for heads, _ in given}

    costs = {"encoder.attention": [1.0], "decoder.cross_attention": [2.0]}
    monkeypatch.setattr(heads, "multi30k", lambda say: corpus)
    monkeypatch.setattr(heads, "scores", untrained)
    monkeypatch.setattr(heads, "pruned", lambda corpus, recipe, say: (30.0, costs))
    found = heads.run(False, 1, lambda line: None).kept
    names = {run_name(recipe.model, recipe.train.seed) for recipe in recipes}
    assert len(names) == 6 == len(found)
    assert set(found) == {kept_in(corpus, name) for name in names}
