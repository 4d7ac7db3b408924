from pathlib import Path

import pytest
import torch
from torch import Tensor

from crosshead.attention.attend import weighted_sum
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.scores import Grid
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
    removed,
)
from crosshead.studies.study import Say
from crosshead.training.recipe import Recipe


@pytest.mark.parametrize("head", [0, 2])
def test_a_head_removed_is_one_that_gathers_nothing(head: int) -> None:
    attention = MultiHeadAttention(12, 3, d_key=4, d_value=5)
    x = torch.randn(2, 6, 12)
    before = attention(x, attention.project(x))

    def silenced(weights: Tensor, value: Tensor, grid: Grid) -> Tensor:
        found = weighted_sum(weights, value, grid)
        found[:, head] = 0
        return found

    attention.combine = silenced
    expected = attention(x, attention.project(x))
    attention.combine = weighted_sum
    with removed(attention, head):
        found = attention(x, attention.project(x))
    torch.testing.assert_close(found, expected)
    assert (found - before).abs().max() > 1e-3
    assert torch.equal(attention(x, attention.project(x)), before)


def test_every_attention_is_of_one_kind() -> None:
    model = build_model(transformer(quick=True), 20, 20)
    assert [kind(name) for name in attentions(model)] == [ENCODER, DECODER, CROSSED]


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
