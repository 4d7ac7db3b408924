"""What every engine promises: results by number, whoever joins or leaves."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from crosshead.decoding.hypotheses import Finished
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.translation.engine import (
    DecodingBatch,
    Engine,
    Engines,
    EngineSearch,
    Query,
    engines_of,
)
from crosshead.tasks.translation.model_engine import ModelEngine, model_engines
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.conftest import NEEDS_EXPORT

LINES = [
    "A dog runs.", "Two men are walking down a street.", "A girl.", "Three", "A man sits on it.",
    "Two dogs are playing in the snow.", "People", "A woman in a red coat.", "A boy jumps.",
    "The street is wet.", "A group of people stands around a table.", "A cat.",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine(engines: Callable[[Translator], Engines], translator: Translator) -> Engine:
    return engines(translator)(3)


@pytest.fixture(scope="module")
def queries(translator: Translator) -> list[Query]:
    """Sentences of different lengths, limits and numbers of hypotheses."""
    ids = translator.planned(LINES, 0).ids
    return [Query(n, each, 3 + 5 * (n % 5), 1 + n % 3) for n, each in enumerate(ids)]


def rest_of(batch: DecodingBatch) -> Finished:
    """The results of the sentences in a batch."""
    found: Finished = {}
    while len(batch):
        found |= batch.step()
    return found


def alone(engine: Engine, query: Query) -> Finished:
    """The result of a sentence without others."""
    batch = engine.batch()
    return batch.add([query]) | rest_of(batch)


def test_a_sentence_gets_what_it_gets_alone(engine: Engine, queries: list[Query]) -> None:
    batch, found = engine.batch(), Finished()
    for first in range(0, len(queries), 3):
        found |= batch.add(queries[first : first + 3])
        if len(batch):
            found |= batch.step()
    found |= rest_of(batch)
    assert sorted(found) == list(range(len(queries)))
    for query in queries:
        [expected] = alone(engine, query).values()
        hypotheses = found[query.number]
        assert [each.tokens for each in hypotheses] == [each.tokens for each in expected]
        for one, other in zip(hypotheses, expected, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=5e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)
        assert len(hypotheses) == query.n_best
        assert all(len(each.token_log_probs) <= query.max_length for each in hypotheses)


def test_who_leaves_gets_no_result_and_changes_nothing_for_others(
    engine: Engine, queries: list[Query], engine_name: str
) -> None:
    batch = engine.batch()
    found = batch.add(queries[:4])
    gone = [query.number for query in queries[:4] if query.number not in found][:2]
    assert bool(gone) == (engine_name == "crosshead")  # CTranslate2 is done with everybody
    batch.drop(gone)
    found |= rest_of(batch)
    assert set(found) == {0, 1, 2, 3} - set(gone)
    for number, hypotheses in found.items():
        assert [each.tokens for each in hypotheses] == [
            each.tokens for each in alone(engine, queries[number])[number]
        ]


def test_the_memory_grows_with_each_size(engine: Engine) -> None:
    one = engine.bytes(1, 8, 8)
    assert 0 < one < engine.bytes(1, 16, 8) and one < engine.bytes(1, 8, 16)
    assert engine.bytes(2, 8, 8) == 2 * one
    assert engine.beam == 3


SAME = DecodeConfig(length_penalty=1.0, length_offset=0.0, stop="count")


@NEEDS_EXPORT
@pytest.mark.parametrize("decode", [SAME, DecodeConfig(beam=1)])
def test_the_engine_that_suits_finds_the_same(translator: Translator, decode: DecodeConfig) -> None:
    assert not isinstance(engines_of("auto", None, 1)(translator, decode)(1), ModelEngine)
    n_best = min(2, decode.beam)
    assert EngineSearch("crosshead")(translator, decode) is None
    search = EngineSearch("auto")(translator, decode)
    assert search and search.engine == "ctranslate2"
    ids, shares = translator.planned(LINES, 0).ids, list[float]()
    other = search.find(ids, n_best, scored=True, progress=shares.append)
    assert shares == [0.0, 1.0]
    own = search_all(translator.model, TokenInputs(ids), translator.bundle.specials, decode, n_best)
    for ours, theirs in zip(own, other, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for first, second in zip(ours, theirs, strict=True):
            assert first.score == pytest.approx(second.score, abs=2e-3)
            assert first.log_prob == pytest.approx(second.log_prob, abs=1e-2)
            assert first.token_log_probs == pytest.approx(second.token_log_probs, abs=1e-2)


@pytest.mark.parametrize(
    "changes",
    [
        {"sample": True, "beam": 1},
        {"stop": "full"},
        {"length_penalty": 0.0},
        {"length_offset": 5.0},
        {"stop": "exact"},
    ],
)
def test_a_search_of_our_own_has_our_own_engine(
    translator: Translator, changes: dict[str, Any]
) -> None:
    decode = SAME.model_copy(update=changes)
    assert isinstance(engines_of("auto", None, 1)(translator, decode)(1), ModelEngine)


@NEEDS_EXPORT
@pytest.mark.parametrize("name", ["auto", "crosshead"])
@pytest.mark.parametrize("n_best", [0, 6])
def test_a_number_of_translations_is_checked_for_every_engine(
    translator: Translator, name: str, n_best: int
) -> None:
    chosen = copy.copy(translator)
    chosen.engine = EngineSearch(name, 1)
    with pytest.raises(ConfigError, match=r"n_best|a beam of 4"):
        chosen.translate(LINES[:1], decode=SAME, n_best=n_best)


def test_an_engine_is_chosen_by_its_name() -> None:
    assert engines_of("crosshead", None, 1) is model_engines
    with pytest.raises(ConfigError, match="did you mean 'ctranslate2'"):
        engines_of("ctranslate", None, 1)
    with pytest.raises(UserError, match="--type is for an engine of another library"):
        engines_of("crosshead", "int8", 1)
