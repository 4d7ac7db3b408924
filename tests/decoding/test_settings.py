import math
from typing import Any

import pytest

from crosshead.config import validate
from crosshead.decoding.settings import DecodeConfig, length_penalty, search_name
from crosshead.errors import ConfigError


def test_length_penalty_is_that_of_gnmt() -> None:
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(43, 0.5) == math.sqrt(8)
    assert length_penalty(99, 0.0) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample": True}, "set beam = 1"),
        ({"top_k": 5}, "set sample = true"),
        ({"temperature": 0.5, "beam": 1}, "set sample = true"),
        ({"beam": 0}, "beam"),
        ({"top_p": 0.0}, "top_p"),
        ({"temperature": 0.0, "sample": True, "beam": 1}, "temperature"),
        ({"beam": 10**6}, "beam"),
        ({"length_penalty": -0.1}, "length_penalty"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(DecodeConfig, values)


@pytest.mark.parametrize(
    ("decode", "name"),
    [
        (DecodeConfig(beam=1), "greedy"),
        (DecodeConfig(beam=5, length_penalty=1.0), "beam 5, length penalty 1"),
        (
            DecodeConfig(stop="exact"),
            "beam 4, length penalty 0.6, early_stopping = never as in Hugging Face",
        ),
        (
            DecodeConfig(length_offset=0, stop="last"),
            "beam 4, length penalty 0.6 (scores are divided by length^0.6), "
            "early_stopping = false as in Hugging Face",
        ),
        (
            DecodeConfig(length_offset=2),
            "beam 4, length penalty 0.6 (scores are divided by ((2 + length) / 3)^0.6)",
        ),
        (DecodeConfig(length_offset=0, length_penalty=0), "beam 4, length penalty 0"),
        (DecodeConfig(beam=1, sample=True), "sampled"),
    ],
)
def test_a_search_has_a_name(decode: DecodeConfig, name: str) -> None:
    assert search_name(decode) == name
