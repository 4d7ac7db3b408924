import pytest
from torch import Generator

from crosshead.studies.equal import WITHIN, as_large, weights
from crosshead.studies.parallelism import (
    ALONE,
    BATCHED,
    FULL,
    GROWTH,
    RECURRENT,
    SAME,
    TRANSFORMER,
    VOCABULARY,
    Rates,
    Size,
    as_rows,
    measured,
    random_batch,
    recurrent,
    transformer,
)


def test_both_models_have_as_many_weights() -> None:
    wanted = weights(transformer(FULL.d_model), VOCABULARY)
    other = as_large(recurrent, VOCABULARY, wanted)
    assert abs(weights(other, VOCABULARY) / wanted - 1) <= WITHIN


def test_a_batch_is_full() -> None:
    batch = random_batch(3, 8, Generator().manual_seed(1))
    assert batch.source.shape == batch.target_output.shape == (3, 8)
    assert batch.target_tokens == 24


def test_quantities_are_medians_of_ratios_in_rounds() -> None:
    rates: Rates = {
        (TRANSFORMER, 1, 4): [10, 30, 20],  # over 10, 10, 20: 1, 3, 1
        (RECURRENT, 1, 4): [10, 10, 20],
        (TRANSFORMER, 1, 8): [60, 60, 60],
        (RECURRENT, 1, 8): [10, 10, 10],
        (TRANSFORMER, 4, 4): [100, 100, 100],
        (RECURRENT, 4, 4): [40, 50, 60],
        (TRANSFORMER, 2, 8): [90, 90, 90],
        (RECURRENT, 2, 8): [30, 30, 30],
    }
    found = measured(rates, Size(8, (4, 8), 16, 3, 0))
    assert found == {ALONE: 6, GROWTH: 6, BATCHED: 3, SAME: pytest.approx(0.6)}
    assert as_rows(rates, [(1, 4)])[1] == ["1 x 4", "20", "10", "1", "1 to 3"]
