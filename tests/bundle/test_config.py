import pytest

from crosshead.bundle.config import BundleConfig, BundleScore
from crosshead.config import validate
from crosshead.errors import ConfigError

SOUND = {"model": {"architecture": "language"}, "task": "language"}


def test_the_task_is_that_of_the_model() -> None:
    assert validate(BundleConfig, SOUND).model.task == "language"
    with pytest.raises(
        ConfigError, match="task is 'masked', but the task of architecture 'language' is 'la"
    ):
        validate(BundleConfig, SOUND | {"task": "masked"})


def test_a_score_says_what_it_takes_to_compare_it() -> None:
    score = BundleScore(metric="BLEU", value=30.0, signature="s", test_set="a")
    assert BundleScore.of(score, "b") == score.model_copy(update={"test_set": "b"})
    config = validate(BundleConfig, SOUND | {"scores": [score.model_dump()]})
    assert config.scores == [score]
