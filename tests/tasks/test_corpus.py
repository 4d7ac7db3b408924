"""What holds for the data of every task."""

import re
from pathlib import Path

import pytest
import torch

from crosshead.errors import DataError
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Corpus, Stopped
from tests.tasks.reading import read_corpus

LINES = "".join(f"a {number} b {number * 7}\n" for number in range(200))
BUDGET = 64


@pytest.fixture(params=["transformer", "language", "encoder"])
def recipe(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Recipe:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text(LINES)
    data = {"source": "a", "target": "b"} if request.param == "transformer" else {"text": "a"}
    return compose(
        recipe={"model": request.param, "tokenizer": {"kind": "words"}, "data": data},
        assignments=[] if request.param == "transformer" else ["data.context=16"],
    )


@pytest.fixture
def corpus(recipe: Recipe) -> Corpus:
    return read_corpus(recipe, None, None)


def test_an_epoch_is_a_function_of_its_number(recipe: Recipe, corpus: Corpus) -> None:
    again = read_corpus(recipe, None, None)
    assert again.sha256() == corpus.sha256()
    orders = []
    for number in (0, 1):
        plans = [
            each.epochs(recipe)(number).plan(BUDGET, recipe.train.seed, number)
            for each in (corpus, again)
        ]
        assert list(map(list, plans[0])) == list(map(list, plans[1]))
        batches = [
            each.epochs(recipe)(number).collate(list(plans[0][0])) for each in (corpus, again)
        ]
        assert torch.equal(batches[0].source, batches[1].source)
        assert torch.equal(batches[0].target_output, batches[1].target_output)
        orders.append(list(map(list, plans[0])))
    assert orders[0] != orders[1]


def test_every_row_is_in_one_batch_within_the_budget_and_has_an_origin(
    recipe: Recipe, corpus: Corpus
) -> None:
    epoch = corpus.epochs(recipe)(0)
    plan = [list(batch) for batch in epoch.plan(BUDGET, 1, 0)]
    assert sorted(row for batch in plan for row in batch) == list(range(len(epoch.lengths)))
    for rows in plan:
        batch = epoch.collate(rows)
        assert len(rows) * max(batch.source.shape[1], batch.target_output.shape[1]) <= BUDGET
    assert epoch.lengths.max() <= max(corpus.lengths.max(), corpus.longest_input)
    assert corpus.origin(plan[0][0]).split(":")[0] == "a"
    assert re.search(r"\d", epoch.extent(plan[0][0]))


def test_it_says_what_there_is(recipe: Recipe, corpus: Corpus) -> None:
    first, *_ = corpus.opening(recipe.data)
    assert f"{corpus.size:,}" in first and corpus.validation(recipe.data) in first
    assert "\n" not in first
    assert [Path(file.path).name for file in corpus.files] in (["a", "b"], ["a"])


def test_a_request_to_stop_is_heard(recipe: Recipe) -> None:
    with pytest.raises(Stopped):
        read_corpus(recipe, None, None, should_stop=lambda: True)


def test_what_is_empty_is_refused(recipe: Recipe) -> None:
    for name in ("a", "b"):
        Path(name).write_text("")
    with pytest.raises(DataError):
        read_corpus(recipe, None, None)
