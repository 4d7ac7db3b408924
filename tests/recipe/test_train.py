from typing import Any

import pytest

from crosshead.recipe.train import TrainConfig
from tests.recipe.refusing import refusal


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert "learning_rate" in refusal("train.schedule=paper", "train.learning_rate=0.1")
    assert "learning_rate" in refusal("train.learning_rate=0.1", preset="base")
    assert "has no warmup_share" in refusal("train.warmup_share=0.1", preset="base")


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"max_updates": 10, "learning_rate": 0.1, **settings})


def test_a_setting_that_is_not_given_is_that_of_the_paper() -> None:
    """Vaswani et al. 2017, sections 5.3, 5.4 and 6.1."""
    found = config()
    assert (found.adam_beta1, found.adam_beta2, found.adam_eps) == (0.9, 0.98, 1e-9)
    assert (found.label_smoothing, found.average) == (0.1, 5)


@pytest.mark.parametrize("key", ["max_updates", "max_epochs", "max_minutes"])
def test_any_one_budget_is_enough_and_none_is_too_few(key: str) -> None:
    none = {"max_updates": None, "max_epochs": None, "max_minutes": None}
    assert getattr(config(**none | {key: 3}), key) == 3
    with pytest.raises(ValueError, match="no budget: give max_updates, max_epochs or max_minutes"):
        config(**none)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": None}, "the schedule inverse-sqrt needs learning_rate, its peak"),
        ({"schedule": "cosine", "learning_rate": None}, "the schedule cosine needs learning_rate"),
        ({"schedule": "paper"}, r"has no learning_rate; remove it, or set schedule"),
        (
            {"consistency_weight": 2.0},
            "consistency_weight 2 has no meaning for consistency 'none'; leave it out, or set",
        ),
        (
            {"cuda_graphs": True, "recompute": True},
            "cuda_graphs cannot record recompute",
        ),
        (
            {"guided_alignment": 0.3, "recompute": True},
            "recompute keeps no attention weights, which guided_alignment needs: set guided_align",
        ),
        ({"word_dropout": 0.001}, "word_dropout 0.001 cannot be drawn from one random byte"),
        ({"average": 6}, "average 6 is more than keep_last 5; lower the first or raise the second"),
    ],
)
def test_a_contradiction_is_refused_with_both_settings(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        config(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "cosine", "max_updates": None, "max_minutes": 2},
        {"schedule": "paper", "learning_rate": None},
        {"consistency": "r-drop", "consistency_weight": 2.5},
        {"consistency": "r-drop", "word_dropout": 0.1, "ema": 0.999},
        {"consistency": "simcut", "word_dropout": None, "consistency_weight": None},
        {"word_dropout": 0.1},
        {"average": 5, "keep_last": 5},
        {"average": 0, "keep_last": 1},
        {"clip_norm": 0, "patience": 0, "valid_every": 0, "checkpoint_every": 0},
    ],
)
def test_settings_that_fit_together_are_accepted(settings: dict[str, Any]) -> None:
    assert {name: getattr(config(**settings), name) for name in settings} == settings
