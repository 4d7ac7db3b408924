import math

import numpy as np
import pytest

from crosshead.evaluation.bootstrap import accuracy, bootstrapped
from tests.evaluation.resampling import bootstrap, random_windows


def test_an_interval_follows_from_the_seed_and_the_score_from_exact_sums() -> None:
    windows = random_windows(50)
    columns = [np.array(column) for column in zip(*windows, strict=True)]
    found = bootstrapped("rate", windows, lambda nats, tokens, _: nats / tokens, "per:token")
    assert (found.metric, found.signature) == ("rate", "per:token")
    assert found.value == math.fsum(columns[0]) / columns[1].sum()
    expected = bootstrap(columns, lambda nats, tokens, _: nats / tokens)
    assert [found.low, found.high] == pytest.approx(expected)
    assert found.low < found.value < found.high


def test_one_part_has_an_interval_without_width() -> None:
    found = bootstrapped("accuracy, %", [(0.0, 8, 2)], accuracy, "")
    assert found.low == found.value == found.high == 25
