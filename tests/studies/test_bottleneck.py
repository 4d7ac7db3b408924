import math
from functools import partial
from pathlib import Path

import pytest

from crosshead.studies import bottleneck
from crosshead.studies.bottleneck import (
    ADDED,
    ATTENDED,
    BAHDANAU,
    CONVOLUTIONAL,
    CONVOLVED,
    FALL,
    LUONG,
    PLAIN,
    QUICK,
    SINKS,
    STAYS,
    TRANSFORMER,
    Scored,
    Spelled,
    by_length,
    captions_measured,
    shapes,
    spelling,
    words_measured,
)
from crosshead.studies.captions import transformer
from crosshead.studies.equal import WITHIN, weights


def test_all_have_as_many_weights_as_the_transformer() -> None:
    compared = shapes(transformer(), 4000)
    wanted = weights(compared[TRANSFORMER], 4000)
    assert list(compared) == [PLAIN, BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER]
    for shape in compared.values():
        assert abs(weights(shape, 4000) / wanted - 1) <= WITHIN


def test_captions_are_grouped_by_the_words_of_their_source() -> None:
    source = ["w " * 8, "w " * 9, "w " * 12, "w " * 15]
    right, wrong = "one two three four five", "six"
    found = by_length(source, [right, right, wrong, right], [right] * 4)
    assert found[:2] == pytest.approx([100, 100])
    assert 0 < found[2] < 100 and math.isnan(found[3])


def test_quantities_are_ratios_and_differences_of_means() -> None:
    words = {PLAIN: [[1.0, 0.8, 0.1], [1.0, 0.4, 0.2]]}
    found = words_measured(Spelled((5, 10, 80), {}, words, words))
    assert found == {FALL.format(PLAIN): pytest.approx(0.25)}
    scores = {PLAIN: [20, 22], BAHDANAU: [30, 32], LUONG: [31, 29], CONVOLUTIONAL: [33, 33]}
    groups = {PLAIN: [[20.0, 5.0]], BAHDANAU: [[40.0, 20.0]]}
    found = captions_measured(Scored("", {}, {**scores, TRANSFORMER: [34, 34]}, groups))
    assert found == pytest.approx(
        {
            ADDED.format("Bahdanau's attention"): 10,
            ADDED.format("Luong's attention"): 9,
            SINKS: 0.5,
            STAYS: 0.5,
            CONVOLVED: 3,
            ATTENDED: 1,
        }
    )


def test_what_was_learned_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = bottleneck._recurrent("none", 0.0, 16)
    learned = partial(spelling, shape, 1e-3, QUICK, kept=tmp_path)
    first = learned(seed=1)
    monkeypatch.setattr(bottleneck, "learn", None)
    assert learned(seed=1) == first
    with pytest.raises(TypeError):
        learned(seed=2)  # another run, which has yet to learn
