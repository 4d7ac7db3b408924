import math

import pytest

from crosshead.bundle.base import BundleConfig
from crosshead.bundle.config import BundleScore
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import CorpusScore

SOUND = {"model": {"architecture": "language"}, "task": "language"}


def test_the_task_is_that_of_the_model() -> None:
    assert validate(BundleConfig, SOUND).model.task == "language"
    with pytest.raises(
        ConfigError, match="task is 'masked', but the task of architecture 'language' is 'la"
    ):
        validate(BundleConfig, SOUND | {"task": "masked"})


def test_a_score_says_what_it_takes_to_compare_it() -> None:
    score = BundleScore(
        metric="BLEU", value=30.0, signature="s", test_set="a", low=28.875, high=31.0
    )
    assert score.interval == "28.88 to 31.00"
    assert BundleScore.of(score, "b") == score.model_copy(update={"test_set": "b"})
    config = validate(BundleConfig, SOUND | {"scores": [score.model_dump()]})
    assert config.scores == [score]


def test_a_score_is_shown_with_its_digits() -> None:
    usual = BundleScore(metric="BLEU", value=30.126, signature="s", test_set="a")
    assert usual.shown == "30.13"
    error = BundleScore(metric="MSE", value=0.37012, signature="s", test_set="a", digits=4)
    assert error.shown == "0.3701"
    assert [BundleScore(**each.model_dump()) for each in (usual, error)] == [usual, error]


def test_an_interval_that_is_not_finite_is_left_out() -> None:
    score = BundleScore.of(CorpusScore("perplexity", 9.0, 8.0, math.inf, "s"), "validation")
    assert score.interval == "" and score.low is score.high is None
