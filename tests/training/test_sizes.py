import pytest

from crosshead.recipe.compose import compose
from crosshead.recipe.train import TrainConfig
from crosshead.text.batching import Example, Pairs
from crosshead.training.schedule import warmup_updates, with_sizes


@pytest.mark.parametrize(
    ("budget", "updates", "expected"),
    [
        ({"max_updates": 30_000}, 1, 200),
        ({"max_updates": 30_000}, 120, 1200),
        ({"max_updates": 30_000}, 250, 2500),
        ({"max_updates": 30_000}, 1000, 3000),
        ({"max_updates": 100_000}, 1000, 4000),
        ({"max_updates": 50}, 120, 5),
        ({"max_updates": 3}, 120, 1),
        ({"max_epochs": 30}, 120, 360),
        ({"max_epochs": 30, "max_updates": 1000}, 120, 100),
        ({"max_minutes": 5.0}, 120, 1200),
    ],
)
def test_the_warm_up_is_ten_epochs_within_bounds(
    budget: dict[str, float], updates: int, expected: int
) -> None:
    config = TrainConfig(learning_rate=0.01, **budget)  # type: ignore[arg-type]
    assert warmup_updates(config, updates) == expected


def test_a_shorter_warm_up_does_not_raise_the_peak_of_the_papers_schedule() -> None:
    assert warmup_updates(TrainConfig(schedule="paper", max_updates=20), 3, 20) == 4000


def examples(count: int) -> list[Example]:
    """Each fills a batch of 257 tokens by itself."""
    return [([5] * 200, [5] * 200)] * count


@pytest.mark.parametrize(("batches", "every"), [(3, 200), (700, 700), (3000, 2000)])
def test_validation_comes_once_an_epoch_within_bounds(batches: int, every: int) -> None:
    recipe = compose(assignments=["train.batch_tokens=257"])
    chosen = with_sizes(recipe, Pairs(examples(batches))).train
    assert chosen.valid_every == every
    assert chosen.warmup == warmup_updates(recipe.train, batches)


def test_what_is_stated_stays() -> None:
    recipe = compose("base", assignments=["train.valid_every=7"])
    tokenizer = recipe.tokenizer.model_copy(update={"vocab_size": 99})
    chosen = with_sizes(recipe.model_copy(update={"tokenizer": tokenizer}), Pairs(examples(3)))
    assert chosen.train == recipe.train
    assert (chosen.train.warmup, chosen.train.valid_every) == (4000, 7)
    assert chosen.tokenizer.vocab_size == 99
