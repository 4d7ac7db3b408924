"""What every engine promises: results by number, whoever joins or leaves."""

from crosshead.decoding.beams import Finished
from crosshead.serving.engine import DecodingBatch, Engine, Query
from tests.models.small_transformers import TINY, model_of, tokens
from tests.serving.test_model_engine import engine_of

ENGINE: Engine = engine_of(model_of(TINY), beam=3)
QUERIES = [Query(n, tokens(1 + n % 4, seed=n).tolist(), 3 + n % 5, 1 + n % 3) for n in range(12)]


def rest_of(batch: DecodingBatch) -> Finished:
    """The results of the sentences in a batch."""
    found: Finished = {}
    while len(batch):
        found |= batch.step()
    return found


def alone(query: Query) -> Finished:
    """The result of a sentence without others."""
    batch = ENGINE.batch()
    return batch.add([query]) | rest_of(batch)


def test_a_sentence_gets_what_it_gets_alone() -> None:
    batch, found = ENGINE.batch(), Finished()
    for first in range(0, len(QUERIES), 3):
        found |= batch.add(QUERIES[first : first + 3])
        if len(batch):
            found |= batch.step()
    found |= rest_of(batch)
    assert sorted(found) == list(range(12))
    for query in QUERIES:
        [expected] = alone(query).values()
        hypotheses = found[query.number]
        assert [each.tokens for each in hypotheses] == [each.tokens for each in expected]
        assert len(hypotheses) == query.wanted
        assert all(len(each.token_log_probs) <= query.limit for each in hypotheses)


def test_who_leaves_gets_no_result_and_changes_nothing_for_others() -> None:
    batch = ENGINE.batch()
    found = batch.add(QUERIES[:4])
    gone = [query.number for query in QUERIES[:4] if query.number not in found][:2]
    batch.drop(gone)
    found |= rest_of(batch)
    assert set(found) == {0, 1, 2, 3} - set(gone)
    for number, hypotheses in found.items():
        assert [each.tokens for each in hypotheses] == [
            each.tokens for each in alone(QUERIES[number])[number]
        ]


def test_the_memory_grows_with_each_size() -> None:
    one = ENGINE.bytes(1, 8, 8)
    assert 0 < one < ENGINE.bytes(1, 16, 8) and one < ENGINE.bytes(1, 8, 16)
    assert ENGINE.bytes(2, 8, 8) == 2 * one
    assert ENGINE.beam == 3
