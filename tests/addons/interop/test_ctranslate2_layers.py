"""Tables of distances and positions hold what the model computes."""

import dataclasses

import numpy as np
import torch

from crosshead.addons.interop.ctranslate2_layers import _bias_table, positions_written
from crosshead.attention.relative import ALiBi, T5Buckets, t5_bucket
from tests.addons.interop.small_bundles import small_bundle


def test_alibi_is_a_table_of_t5_buckets() -> None:
    bias, positions = ALiBi(heads=4), 2050
    for causal in (True, False):
        table, furthest = _bias_table(bias, positions, causal=causal)
        low = 0 if causal else 1 - positions
        distances = torch.arange(low, positions)
        buckets = t5_bucket(distances, causal, len(table), furthest)
        np.testing.assert_array_equal(table[buckets].T, bias(distances).numpy())


def test_a_table_covers_all_that_the_model_reads() -> None:
    bundle = small_bundle()
    assert positions_written(bundle) == 1024
    config = bundle.config.model_copy(update={"longest_source": 2048})
    long = dataclasses.replace(bundle, config=config)
    assert positions_written(long) == 2048 + 1 + 10 + 1


def test_t5_keeps_its_own_table() -> None:
    bias = T5Buckets(3, causal=True)
    table, furthest = _bias_table(bias, 1024, causal=True)
    assert table.shape == (32, 3) and furthest == 128
