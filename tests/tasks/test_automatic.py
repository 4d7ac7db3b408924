"""The preset `auto` of translation: every choice follows from data, budget and speed."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from crosshead.errors import ConfigError
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.tasks.automatic import GUIDANCE, SIZES, settle, usual_epochs
from crosshead.tasks.base import Speed
from crosshead.text.batching import Pairs
from crosshead.training.progress import Progress
from crosshead.training.schedule import Overhead, budget_spent, fraction_done, scheduled_rate

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "tutorial.md"


@dataclass
class FakeCorpus:
    """So many pairs of sentences of so many tokens."""

    size: int
    tokens: int = 14
    vocabulary: str = "vocabulary 1,234"

    @property
    def lengths(self) -> np.ndarray:
        return np.full((self.size, 2), self.tokens)

    def facts(self) -> str:
        return self.vocabulary

    def epochs(self, recipe: TextRecipe) -> Any:
        examples = [([5] * (self.tokens - 1),) * 2] * self.size
        return lambda epoch: Pairs(examples)


def slowness(recipe: TextRecipe) -> float:
    """The time of an update, as a multiple of that of width 128 and one view."""
    views = 1 if recipe.train.consistency == "none" else 2.4
    return views * (recipe.model.d_model / 128) ** 1.5


def settled(
    pairs: int,
    *stated: str,
    tokens: int = 14,
    speed: float | None = 8000,
    minutes: float | None = None,
    preset: str = "auto",
) -> TextRecipe:
    """A recipe for a machine that trains width 128 at so many target tokens a second."""
    given = {"tokens": tokens, "speed": speed, "minutes": minutes, "preset": preset}
    return reasoned(pairs, *stated, **given)[0]


def reasoned(
    pairs: int,
    *stated: str,
    tokens: int = 14,
    speed: float | None = 8000,
    minutes: float | None = None,
    preset: str = "auto",
) -> tuple[TextRecipe, str]:
    """The recipe of `settled`, with the reason for its size of model."""
    corpus = FakeCorpus(pairs, tokens)

    def seconds(recipe: TextRecipe) -> float | None:
        assert isinstance(recipe.model, TransformerConfig)
        if speed is None:
            return None
        epoch = corpus.epochs(recipe)(0)
        per_epoch = len(epoch.plan(recipe.train.batch_tokens, 1, 0))
        return pairs * tokens / per_epoch / speed * slowness(recipe)

    if minutes is not None:
        stated = (*stated, f"train.max_minutes={minutes}")
    there = Speed(seconds, lambda: None if minutes is None else 60 * minutes)
    recipe, lines = settle(compose(preset, assignments=stated), corpus, there)  # type: ignore[arg-type]
    assert len(lines) == 3
    assert "because" in lines[1] or "as stated" in lines[1]
    assert lines[2].startswith("auto: vocabulary 1,234, dropout 0.")
    # The values are checked again, together.
    assert type(recipe).model_validate(recipe.model_dump()).model_dump() == recipe.model_dump()
    return recipe, lines[1].partition(", ")[2]


@pytest.mark.parametrize("minutes", [5, 10, 25, 60, 600])
@pytest.mark.parametrize("pairs", [200, 2000, 29_000])
def test_a_run_of_any_budget_ends_well_past_its_warm_up(pairs: int, minutes: float) -> None:
    recipe = settled(pairs, minutes=minutes)
    train, speed = recipe.train, 8000 / slowness(recipe)
    assert train.warmup
    epochs = min(train.max_epochs or 1e9, 60 * minutes * speed / (14 * pairs))
    updates = epochs * len(Pairs([([5] * 13,) * 2] * pairs).plan(train.batch_tokens, 1, 0))
    assert train.warmup <= 0.11 * updates + 1
    assert train.cooldown == pytest.approx(0.9) and train.schedule == "constant"
    assert 3 <= updates / train.valid_every <= 15
    assert train.max_minutes == minutes and train.max_updates is None


@pytest.mark.parametrize("schedule", ["constant", "cosine", "inverse-sqrt"])
@pytest.mark.parametrize("slower", [1, 3, 10])
@pytest.mark.parametrize(("pairs", "tokens", "minutes"), [(2000, 14, 5), (500, 90, 5)])
def test_a_run_on_a_machine_that_becomes_slower_ends_well_past_its_warm_up(
    pairs: int, tokens: int, minutes: float, slower: float, schedule: str
) -> None:
    rate = 8000.0
    stated = [f"train.schedule={schedule}"] * (schedule != "constant")
    recipe = settled(pairs, *stated, tokens=tokens, minutes=minutes, speed=rate)
    train, size = recipe.train, len(Pairs([([5] * (tokens - 1),) * 2] * pairs).plan(
        recipe.train.batch_tokens, 1, 0
    ))  # fmt: skip
    seconds = slower * pairs * tokens / size / rate * slowness(recipe)
    progress, peaked = Progress(), 0.0
    while not budget_spent(train, progress, Overhead(), 0.0):
        done = fraction_done(train, progress, Overhead(), 0.0)
        # A resumed run has its progress from a file.
        again = fraction_done(train, Progress(**asdict(progress)), Overhead(), 0.0)
        now = scheduled_rate(train, 64, progress.update + 1, done)
        assert now == scheduled_rate(train, 64, progress.update + 1, again)
        if now >= scheduled_rate(train, 64, train.warmup or 0, done) and not peaked:
            peaked = done
        progress.update, progress.seconds = progress.update + 1, progress.seconds + seconds
    assert peaked <= 0.1 + 2 * seconds / (60 * minutes)


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt", "cosine"])
def test_a_stated_schedule_has_the_rate_of_the_width(schedule: str) -> None:
    """The rate of `tiny` is too high for wide models."""
    for width, rate in ((128, 0.004), (512, 0.0007)):
        stated = f"train.schedule={schedule}", f"model.d_model={width}"
        assert settled(2000, *stated, minutes=5).train.learning_rate == rate


def test_muon_decays_by_the_sum_of_the_rates() -> None:
    for updates, decay in ((100, 0.5), (1000, 0.5), (2000, 0.25), (4000, 0.12)):
        run = f"train.max_updates={updates}", "d_model=128"
        assert settled(2000, *run).train.weight_decay == decay
        assert settled(2000, *run, "train.optimizer=adam").train.weight_decay == 0
        assert settled(2000, *run, "train.weight_decay=0.1").train.weight_decay == 0.1


def test_small_widths_train_with_muon() -> None:
    """For other widths it is not measured."""
    for width, optimizer in ((64, "muon"), (128, "muon"), (160, "adam"), (256, "adam")):
        assert settled(2000, f"model.d_model={width}").train.optimizer == optimizer


def test_few_checkpoints_are_no_mistake_because_nothing_is_averaged() -> None:
    train = settled(300, "train.keep_last=2").train
    assert (train.keep_last, train.average) == (2, 0)
    with pytest.raises(ConfigError, match="average 3 is more than keep_last 2"):
        settled(300, "train.keep_last=2", "train.average=3")
    others = compose("auto", assignments=["model.architecture=recurrent", "keep_last=20"]).train
    assert (others.keep_last, others.average) == (20, 5)  # auto chooses nothing for them


def test_the_length_penalty_is_one_unless_it_is_stated() -> None:
    assert settled(300).decode.length_penalty == 1.0
    assert settled(300, "decode.length_penalty=0.6").decode.length_penalty == 0.6


def test_a_stated_warm_up_stays_exact() -> None:
    for stated in (("train.warmup=50",), ("train.schedule=paper",)):
        train = settled(2000, *stated, minutes=5).train
        assert train.warmup_share == 0
        exact = [scheduled_rate(train, 64, update, 0.0) for update in range(1, 60)]
        assert exact == [scheduled_rate(train, 64, update, 0.05) for update in range(1, 60)]
    assert settled(2000, minutes=5).train.warmup_share == 0.1
    assert settled(2000, "train.warmup_share=0.3", minutes=5).train.warmup_share == 0.3
    assert settled(2000).train.warmup_share == 0


def test_more_data_and_more_time_give_a_larger_model() -> None:
    widths = [
        settled(pairs, speed=speed, minutes=60).model.d_model
        for pairs, speed in (
            (1400, 8e5), (29_000, 8e3), (110_000, 8e3), (110_000, 8e4)
        )
    ]  # fmt: skip
    assert widths == [64, 128, 128, 256]
    assert settled(29_000, minutes=60).model.norm == "pre"
    assert settled(29_000, "encoder_layers=2", minutes=60).model.d_model == 128
    assert settled(2000, "encoder_layers=3", minutes=60).model.d_model == 64
    long = settled(3000, speed=8e6, minutes=600, tokens=4000)
    assert long.model.d_model == SIZES[0].d_model


CHOSEN = "trained with R-Drop, because there is time for 30 epochs"
FEW = "because width 128 needs 100,000 target tokens in an epoch"
PLAIN = "because width 256 needs 1,500,000 target tokens in an epoch"
SHORT = "{} and width 256 with R-Drop would get at most {} and needs 30"
LONG = "{} and width 256 with R-Drop needs --max-minutes {} or more"
LARGE = "because memory does not suffice for width 128"


@pytest.mark.parametrize(
    ("pairs", "speed", "stated", "minutes", "width", "reason"),
    [
        (2000, 8e3, (), 25, 256, CHOSEN),
        (2000, 8e3, (), None, 64, LONG.format(FEW, 15)),
        (
            2000,
            8e3,
            ("train.max_epochs=300",),
            None,
            64,
            LONG.format(FEW, 15),
        ),
        (29_000, 8e3, (), 60, 128, SHORT.format(PLAIN, "10 epochs")),
        (29_000, 8e5, (), 10, 256, CHOSEN),
        (29_000, 8e5, (), None, 256, CHOSEN),
        (29_000, 8e3, (), None, 128, LONG.format(PLAIN, 207)),
        (29_000, 8e5, ("train.consistency=none",), 10, 128, PLAIN),
        (29_000, 8e5, ("train.consistency=simcut",), 10, 128, PLAIN),
        (29_000, 8e5, ("model.d_model=128",), 10, 128, "as stated"),
        (29_000, 8e5, ("train.max_epochs=29",), 10, 128, SHORT.format(PLAIN, "29 epochs")),
        (29_000, None, (), 10, 64, LARGE),
        (29_000, None, (), None, 64, LARGE),
        (29_000, None, ("train.max_epochs=40", "train.batch_tokens=400000"), 10, 64, LARGE),
        (2000, 8e3, (), 1, 64, SHORT.format(FEW, "2 epochs")),
        (29_000, 8e3, (), 1, 128, SHORT.format(PLAIN, "1 epoch")),
        (200, 8e5, (), 10, 64, FEW),
    ],
)
def test_a_wide_model_with_r_drop_needs_time_for_many_epochs(
    pairs: int,
    speed: float | None,
    stated: tuple[str, ...],
    minutes: float | None,
    width: int,
    reason: str,
) -> None:
    recipe, why = reasoned(pairs, *stated, speed=speed, minutes=minutes)
    assert recipe.model.d_model == width and why == reason
    chosen = "none"
    if stated and stated[0].startswith("train.consistency="):
        chosen = stated[0].partition("=")[2]
    assert recipe.train.consistency == ("r-drop" if width == 256 else chosen)
    if "--max-minutes" in reason:
        enough = float(reason.partition("--max-minutes ")[2].split()[0])
        assert reasoned(pairs, *stated, speed=speed, minutes=enough)[1] == CHOSEN


def test_without_a_budget_the_data_decides_how_long() -> None:
    lengths = {}
    for pairs in (500, 29_000, 90_000):
        recipe = settled(pairs)
        assert recipe.train.max_epochs == 2 * usual_epochs(14 * pairs)
        assert recipe.train.max_minutes is recipe.train.max_updates is None
        assert recipe.train.patience == 8 and recipe.train.cooldown == 0.2
        updates = usual_epochs(14 * pairs) * len(
            Pairs([([5] * 13,) * 2] * pairs).plan(recipe.train.batch_tokens, 1, 0)
        )
        assert recipe.train.warmup == min(4000, round(0.1 * updates))
        lengths[pairs] = recipe.train.max_epochs
    assert lengths[500] > lengths[29_000] > lengths[90_000] > 10


def test_validation_does_not_end_a_run_that_states_its_end_or_no_patience() -> None:
    for stated in ("train.max_updates=800", "train.max_epochs=3", "train.patience=0"):
        train = settled(500, stated).train
        assert train.patience == 0 and train.cooldown == 0.9
    assert settled(500, "train.patience=0").train.max_epochs == usual_epochs(7000)
    assert settled(500, "train.patience=3").train.patience == 3
    both = settled(500, "train.patience=3", minutes=20).train
    assert both.patience == 3 and both.cooldown == 0.2  # the rate stays until patience is spent


def test_without_a_budget_validations_are_four_times_closer() -> None:
    train = settled(500, speed=None).train
    # Ten validations of a run with a budget are as far apart as its warm-up is long.
    assert train.warmup and train.valid_every == pytest.approx(train.warmup / 4, abs=1)


def test_a_budget_is_cut_where_more_epochs_only_overfit() -> None:
    recipe = settled(500, minutes=10_000)
    assert recipe.train.max_epochs == 2 * usual_epochs(7000)


def test_epochs_are_limited_only_where_the_run_may_come_near_the_limit() -> None:
    assert settled(29_000, minutes=60).train.max_epochs is None
    assert settled(29_000, "train.max_updates=800").train.max_epochs is None
    assert settled(29_000, "train.max_epochs=900", minutes=60).train.max_epochs == 900
    # Without a speed, nothing is known of how far the run will come.
    unknown = settled(29_000, speed=None, minutes=60).train
    assert unknown.max_epochs == 2 * usual_epochs(14 * 29_000)


def test_updates_and_epochs_are_budgets_too() -> None:
    by_updates = settled(29_000, "train.max_updates=800").train
    assert (by_updates.max_updates, by_updates.warmup, by_updates.batch_tokens) == (800, 80, 4096)
    by_epochs = settled(29_000, "train.max_epochs=3").train
    assert by_epochs.max_epochs == 3 and by_epochs.max_updates is None
    assert by_epochs.batch_tokens < 4096


def test_a_few_updates_are_not_measured_first() -> None:
    def never(recipe: TextRecipe) -> float | None:
        raise AssertionError("measured")

    corpus, few = FakeCorpus(300), compose("auto", assignments=["train.max_updates=99"])
    recipe, _ = settle(few, corpus, Speed(never, lambda: None))  # type: ignore[arg-type]
    assert recipe.train.max_updates == 99
    assert reasoned(2000, "train.max_updates=99", "train.batch_tokens=30000")[1].endswith(
        " and width 256 with R-Drop needs 100 updates"
    )
    more = compose("auto", assignments=["train.max_updates=100"])
    with pytest.raises(AssertionError, match="measured"):
        settle(more, corpus, Speed(never, lambda: None))  # type: ignore[arg-type]


def test_measuring_takes_a_part_of_the_time() -> None:
    measured: list[float] = []

    def seconds(recipe: TextRecipe) -> float:
        measured.append(300.0)
        return 0.5

    recipe = compose("auto", assignments=["train.max_minutes=15"])
    there = Speed(seconds, lambda: 900.0 - sum(measured))
    _, lines = settle(recipe, FakeCorpus(2000), there)  # type: ignore[arg-type]
    # 600 updates fit into the 300 seconds that are left, with 8 batches in an epoch.
    assert len(measured) == 2 and lines[0].endswith(", 75 epochs")


@pytest.mark.parametrize(
    ("pairs", "stated", "length"),
    [
        (200, (), "1,912 epochs"),
        (2000, ("train.max_epochs=1",), "1 epoch"),
        (2000, ("train.max_updates=1",), "less than 1 epoch"),
    ],
)
def test_lengths_are_whole_numbers_in_words(
    pairs: int, stated: tuple[str, ...], length: str
) -> None:
    recipe = compose("auto", assignments=stated or ["train.max_minutes=60"])
    there = Speed(lambda recipe: 0.01, lambda: None if stated else 3600.0)
    _, lines = settle(recipe, FakeCorpus(pairs), there)  # type: ignore[arg-type]
    assert f" {14 * pairs:,} target tokens, about " in lines[0]
    assert lines[0].endswith(f", {length}")


def test_a_line_says_how_long_a_run_takes() -> None:
    there = Speed(lambda recipe: 0.5, lambda: None)
    _, lines = settle(compose("auto"), FakeCorpus(2000), there)  # type: ignore[arg-type]
    assert " updates in about 21 minutes, " in lines[0]


def _form(line: str) -> str:
    """Return a line with 0 in the place of every number."""
    return re.sub(r"\d+([,.]\d+)*", "0", line)


def test_the_tutorial_quotes_lines_of_the_form_of_today() -> None:
    """If this fails, run the minute of docs/tutorial.md again and quote what it prints."""
    recipe = compose("auto", assignments=["train.max_minutes=1"])
    sized = recipe.tokenizer.model_copy(update={"vocab_size": 1200})
    there = Speed(lambda recipe: 0.2, lambda: 50.0)
    corpus = FakeCorpus(2429, 6, "vocabulary 1,200")
    _, lines = settle(recipe.model_copy(update={"tokenizer": sized}), corpus, there)  # type: ignore[arg-type]
    page = map(_form, TUTORIAL.read_text("utf-8").splitlines())
    assert set(map(_form, lines)) <= set(page)


def test_short_runs_have_less_dropout_and_smaller_batches() -> None:
    short, long = (settled(29_000, minutes=minutes) for minutes in (5, 120))
    assert short.model.dropout < long.model.dropout
    assert short.train.batch_tokens < long.train.batch_tokens


def test_attention_is_guided_unless_memory_or_the_user_rules_it_out() -> None:
    # The weight that docs/guided_alignment.md measures.
    assert settled(3000, minutes=10).train.guided_alignment == GUIDANCE == 0.3
    assert settled(3000, "train.recompute=true").train.guided_alignment == 0
    assert settled(3000, "guided_alignment=0").train.guided_alignment == 0


STATED = {
    "model.d_model": 96, "model.encoder_layers": 1, "model.dropout": 0.05, "model.norm": "post",
    "train.batch_tokens": 3000, "train.warmup": 7, "train.learning_rate": 0.0123,
    "train.valid_every": 11, "train.max_epochs": 4, "train.cooldown": 0.3, "train.patience": 3,
    "train.average": 2, "train.max_updates": 99, "train.schedule": "paper", "train.seed": 5,
    "tokenizer.vocab_size": 777, "decode.beam": 2, "train.guided_alignment": 1.5,
    "train.optimizer": "adam",
}  # fmt: skip


@given(some.sets(some.sampled_from(sorted(STATED))))
def test_what_is_stated_stays(keys: set[str]) -> None:
    if {"train.schedule", "train.learning_rate"} <= keys:
        keys -= {"train.learning_rate"}  # the paper's schedule has none
    stated = [f"{key}={STATED[key]}" for key in sorted(keys)]
    recipe = settled(300, *stated)
    for key in keys:
        section, _, name = key.partition(".")
        assert getattr(getattr(recipe, section), name) == STATED[key]


def test_a_machine_whose_speed_is_not_known_gets_a_recipe() -> None:
    recipe = settled(3000, speed=None, minutes=10)
    assert recipe.train.warmup and recipe.train.max_epochs


@pytest.mark.parametrize(
    ("stated", "rate", "shape"),
    [
        (("d_model=512",), 0.0007, (6, 2048, 8)),
        (("d_model=300",), 0.0015, (4, 1024, 4)),
        (("d_model=96", "encoder_layers=2"), 0.004, (2, 256, 4)),
        (("d_model=512", "d_ff=100", "learning_rate=0.002"), 0.002, (6, 100, 8)),
        (("encoder_layers=9",), 0.004, (9, 256, 4)),
        (("d_model=48",), 0.004, (2, 256, 4)),
    ],
)
def test_a_stated_width_has_the_rate_and_the_shape_of_the_nearest_size(
    stated: tuple[str, ...], rate: float, shape: tuple[int, int, int]
) -> None:
    recipe = settled(300, *stated)
    model = recipe.model
    assert isinstance(model, TransformerConfig)
    assert recipe.train.learning_rate == rate
    assert (model.encoder_layers, model.d_ff, model.heads) == shape


@pytest.mark.parametrize("minutes", [None, 10, 600])
def test_a_student_is_trained_like_auto_with_its_shape(minutes: float | None) -> None:
    fixed = [
        f"{section}.{key}={value}"
        for section, table in PRESETS["transformer"]["student"].items()
        for key, value in table.items()
        if section != "train"
    ]
    student = settled(29_000, minutes=minutes, preset="student")
    assert student.opened(()) == settled(29_000, *fixed, minutes=minutes).opened(())
    assert settled(29_000, "model.d_model=256", preset="student").train.learning_rate == 0.0015


def test_the_papers_schedule_keeps_its_warm_up() -> None:
    """A shorter one would raise its peak, d_model^-0.5 warmup^-0.5."""
    train = settled(300, "train.max_updates=50", "train.schedule=paper").train
    assert train.warmup == 4000


def test_validations_are_a_minute_apart() -> None:
    long, short = (settled(8000, minutes=minutes, speed=1000).train for minutes in (60, 3))
    seconds = 14 * 8000 / 1000 / len(Pairs([([5] * 13,) * 2] * 8000).plan(1024, 1, 0))
    assert short.batch_tokens == 1024
    assert short.valid_every == pytest.approx(60 / seconds, rel=0.05)
    assert long.valid_every > short.valid_every
