"""The preset `auto` of translation: settings that fit the data, the budget and the machine.

The choice has three steps, each a function: the size of the model, the size of a batch with the
number of updates, and the settings that follow from them. Keys that the user has stated stay.
"""

import math
from functools import cache
from typing import Any, Literal, NamedTuple

from crosshead.caller import setting
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.presets import PAPER_WARMUP
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.recipe.train import LAST_PART, TrainConfig
from crosshead.system.progress import counted
from crosshead.tasks.base import Speed
from crosshead.tasks.corpus import Corpus
from crosshead.tasks.translation.parallel_corpus import ParallelCorpus


class Size(NamedTuple):
    """A size of model, and what it needs to be worth its time."""

    layers: int
    d_model: int
    d_ff: int
    heads: int
    learning_rate: float
    """The peak of the learning rate."""
    least_data: float
    """The smallest number of target tokens in an epoch for this size."""
    least_training: float = 0
    """The smallest number of target tokens in all epochs of the run."""
    least_epochs: float = 0
    """The smallest number of epochs of the run. If it is not 0 and the user has stated no minutes,
    the expected length of the run must also be at most `LONGEST_UNASKED`."""
    consistency: Literal["none", "r-drop"] = "none"
    """The loss that it is trained with."""


SIZES = (
    Size(6, 512, 2048, 8, 0.0007, least_data=1e7, least_training=3e8),
    Size(4, 256, 1024, 4, 0.0015, least_data=2e4, least_epochs=30, consistency="r-drop"),
    Size(4, 256, 1024, 4, 0.0015, least_data=1.5e6, least_training=2.5e7),
    Size(4, 128, 256, 4, 0.004, least_data=1e5),
    Size(2, 64, 256, 4, 0.004, least_data=0),
)
"""The sizes, the best ones first; the first one that data and time allow is chosen. Layers and
widths of the first one are those of the base model of Vaswani et al. 2017 (Table 3), and of width
128 those of Wu et al. 2021 for 29,000 pairs. The last one was better for 2,000 captions in five and
in ten minutes of a slow core (docs/results.md). R-Drop was better for 29,000 captions in 67 epochs
(docs/regularisation.md). For 2,000 captions it was worse than width 64 in 23 epochs, and no
difference was clear in 40 (docs/results.md). Its bound of 30 epochs lies between the two. The other
bounds of the first three sizes were chosen without a measurement.
"""

WIDEST_OF_MUON = 128
"""The largest width at which models train with Muon. Widths 64 and 128 are measured, and width 256
only in a run that did not see all pairs once (docs/results.md)."""

DECAY, MOST_DECAY = 1.0, 0.5
"""The weight decay of models that train with Muon: `DECAY` over the sum of all learning rates, at
most `MOST_DECAY`. So without gradients the weights would fall to about 1/e in the run
(docs/results.md)."""

LONGEST_UNASKED = 3600.0
"""The largest expected number of seconds of a run with `least_epochs`, if no minutes are stated.
Validation may end the run later (see `LONGEST`)."""

LARGEST_BATCH, LEAST_BATCH = 4096, 1024
"""The largest and the smallest size of a batch, in tokens. They are not measured."""

ENOUGH_UPDATES = 1500
"""The number of updates below which batches are halved, unless `max_updates` is stated. It is not
measured."""

LEAST_MEASURED = 100
"""A run of fewer updates and without --max-minutes is not measured first, because the measurement
would take as long."""

GUIDANCE = 0.3
"""The weight of guided alignment (docs/guided_alignment.md)."""

NOISE = 0.1
"""The share of the training pairs with noise. Its cost is measured (docs/training.md)."""

SEARCH: dict[str, Any] = {
    "length_penalty": 1.0, "length_offset": 0.0, "stop": "count", "min_length": 1,
}  # fmt: skip
"""The beam search. The length penalty of the paper, 0.6, makes some translations of small models
too short or empty (docs/results.md). The form and the rule are those of CTranslate2, so that it
finds the same translations sooner (docs/translating.md). No training text is empty, so that no
output is, and none takes a place among the finished hypotheses."""

DROPOUTS = ((15, 0.1), (40, 0.2), (math.inf, 0.3))
"""Pairs of a largest number of epochs and a dropout. The first pair that covers the run counts. The
numbers are not measured."""

WARMUP_SHARE = 0.1
"""The warm-up as a share of the run, if that is not more than `PAPER_WARMUP`. The schedule after it
is measured (docs/results.md), the share is not."""

VALIDATIONS = 10
"""The number of validations of a run, if they are at least a minute apart."""

USUAL_EPOCHS, USUAL_DATA = 80, 400_000
"""Without a budget, a run is expected to take USUAL_EPOCHS epochs if an epoch has USUAL_DATA target
tokens. The number of epochs is proportional to 1/sqrt(target tokens)."""

LONGEST = 2
"""The largest length of a run, as a multiple of the expected epochs of a run without a budget. More
would only overfit."""

PATIENCE, CLOSER = 8, 4
"""Without a budget, training ends after PATIENCE validations without improvement. They are CLOSER
times closer together than with a budget. Both numbers are not measured, only that a run which ends
in this way is as good as one of a fixed length (docs/results.md)."""


class Plan(NamedTuple):
    """A recipe with the length of its run."""

    recipe: TextRecipe
    updates: int
    """The number of updates of the run."""
    epochs: float
    """The number of epochs of the run."""
    seconds: float | None
    """The seconds of an update; None if they are not known."""
    why_this_size: str = "as stated"
    """The reason for the size of the model, in a clause."""


def settle(
    recipe: TextRecipe, corpus: ParallelCorpus, speed: Speed
) -> tuple[TextRecipe, list[str]]:
    """Return the recipe with values for its open keys, and lines that give them with reasons."""
    tokens = int(corpus.lengths[:, 1].sum())
    guidance = 0.0 if recipe.train.recompute else GUIDANCE  # it needs the attention weights
    given = {
        "decode": SEARCH,
        "train": {"guided_alignment": guidance},
        "data": {"noise": NOISE},
    }
    recipe = _with_budget(_filled(recipe, given), tokens)
    plan = _with_batches(_largest(recipe, corpus, speed, tokens), corpus)
    settled = _with_schedule(plan)
    return settled, _lines(settled, plan, corpus, tokens)


def usual_epochs(tokens: int) -> int:
    """Return the expected number of epochs of a run without a budget."""
    return max(1, round(USUAL_EPOCHS * math.sqrt(USUAL_DATA / tokens)))


def _with_budget(recipe: TextRecipe, tokens: int) -> TextRecipe:
    """Limit the epochs: the expected number without a budget, the largest with one."""
    epochs = usual_epochs(tokens) * (LONGEST if _has_budget(recipe) else 1)
    return _filled(recipe, {"train": {"max_updates": None, "max_epochs": epochs}})


def _has_budget(recipe: TextRecipe) -> bool:
    """Return whether the user has stated how long to train."""
    budgets = {"max_updates", "max_epochs", "max_minutes"}
    return not budgets <= _open_keys(recipe, "train")


def _stops_early(recipe: TextRecipe) -> bool:
    """Return whether validation ends the run: without a budget, unless the user turns it off."""
    has_patience = "train.patience" in recipe.open or recipe.train.patience > 0
    return has_patience and not _has_budget(recipe)


def _largest(recipe: TextRecipe, corpus: ParallelCorpus, speed: Speed, tokens: int) -> Plan:
    """Return the plan with the largest model that the data and the budget allow.

    If the user has stated a width, the rest of the shape is that of the nearest size. If another
    part is stated, the rest is that of the largest size that needs no long budget.
    """
    if _has_stated_shape(recipe):
        return _plan(_with_size(recipe, _nearest_size(recipe, tokens)), corpus, speed)
    data_lacks = run_lacks = ""
    planned = cache(lambda size: _plan(_with_size(recipe, size), corpus, speed))
    sizes = _sizes(recipe)
    for place, size in enumerate(sizes):
        if tokens < size.least_data:
            data_lacks = f"{_name(size)} needs {size.least_data:,.0f} target tokens in an epoch"
            continue
        found = ""
        if size.consistency == "r-drop" and recipe.train.max_minutes:
            # It takes at least as long as the next model, which is measured in any case. This is
            # often too long already.
            below = planned(next(each for each in sizes[place + 1 :] if tokens >= each.least_data))
            found = _lacking(below, size, tokens)
        if not found:
            plan = planned(size)
            found = _lacking(plan, size, tokens)
        if not found or size == SIZES[-1]:
            break
        data_lacks, run_lacks = "", found
    lacks = " and ".join(filter(None, (data_lacks, run_lacks)))
    why = f"because {lacks or 'data and time suffice for it'}"
    if size.consistency == "r-drop":
        why = f"trained with R-Drop, because there is time for {size.least_epochs:g} epochs"
    return plan._replace(why_this_size=why)


def _sizes(recipe: TextRecipe) -> list[Size]:
    """Return the sizes whose loss is open or stated."""
    is_open = "consistency" in _open_keys(recipe, "train")
    return [
        size for size in SIZES if is_open or size.consistency in ("none", recipe.train.consistency)
    ]


def _name(size: Size) -> str:
    """Return the name of a size in messages."""
    return f"width {size.d_model}" + (" with R-Drop" if size.consistency == "r-drop" else "")


def _lacking(plan: Plan, size: Size, tokens: int) -> str:
    """Return what a run with this plan lacks for its size of model, or an empty string."""
    name, is_measured = _name(size), _is_measured(plan.recipe.train, plan.updates)
    seconds = plan.updates * (plan.seconds or 0.0)
    if plan.seconds is None and is_measured:
        return f"memory does not suffice for {name}"
    if plan.epochs < size.least_epochs:
        return f"{name} would get at most {_epochs(plan.epochs)} and needs {size.least_epochs:g}"
    if size.least_epochs and not is_measured:
        return f"{name} needs {LEAST_MEASURED} updates"
    if plan.epochs * tokens < size.least_training:
        return f"{name} needs {size.least_training:,.0f} target tokens in all epochs"
    if size.least_epochs and not plan.recipe.train.max_minutes and seconds > LONGEST_UNASKED:
        enough = math.ceil(1.2 * seconds * size.least_epochs / plan.epochs / 60)
        return f"{name} needs {setting('train.max_minutes', enough, has_flag=True)} or more"
    return ""


def _has_stated_shape(recipe: TextRecipe) -> bool:
    """Return whether the user has stated a part of the model's size."""
    return not _shape(SIZES[-1]).keys() <= _open_keys(recipe, "model")


def _nearest_size(recipe: TextRecipe, tokens: int) -> Size:
    """Return the size that is nearest to a stated width, or the one that suits the data."""
    model = recipe.model
    assert isinstance(model, TransformerConfig)
    if "d_model" in _open_keys(recipe, "model"):
        return next(
            size
            for size in SIZES
            if tokens >= size.least_data and not (size.least_training or size.least_epochs)
        )
    fitting = [size for size in SIZES if model.d_model % size.heads == 0]
    return min(fitting or [SIZES[-1]], key=lambda size: abs(math.log(size.d_model / model.d_model)))


def _with_size(recipe: TextRecipe, size: Size) -> TextRecipe:
    """Return the recipe with a size of model, as far as its keys are open."""
    train: dict[str, Any] = {"batch_tokens": LARGEST_BATCH, "schedule": "constant"}
    if "schedule" in _open_keys(recipe, "train") or recipe.train.schedule != "paper":
        train["learning_rate"] = size.learning_rate
    if not _has_stated_shape(recipe):
        train["consistency"] = size.consistency
    recipe = _filled(recipe, {"model": _shape(size), "train": train})
    assert isinstance(recipe.model, TransformerConfig)
    optimizer = "muon" if recipe.model.d_model <= WIDEST_OF_MUON else "adam"
    return _filled(recipe, {"train": {"optimizer": optimizer}})


def _shape(size: Size) -> dict[str, int]:
    """Return the keys of a model's size, with their values."""
    layers = dict.fromkeys(("encoder_layers", "decoder_layers"), size.layers)
    return layers | {"d_model": size.d_model, "d_ff": size.d_ff, "heads": size.heads}


def _plan(recipe: TextRecipe, corpus: ParallelCorpus, speed: Speed) -> Plan:
    """Return the recipe with the length that its budgets give the run."""
    train, per_epoch = recipe.train, updates_per_epoch(recipe, corpus)
    limits = [train.max_updates, train.max_epochs and train.max_epochs * per_epoch]
    updates = min(limit for limit in limits if limit is not None)
    plan = Plan(recipe, updates, updates / per_epoch, None)
    if not _is_measured(train, updates):
        return plan
    return _in_time(plan, speed.seconds_per_update(recipe), speed)


def _in_time(plan: Plan, seconds: float | None, speed: Speed) -> Plan:
    """Return the plan with as many updates of so many seconds as there is time for."""
    left, updates = speed.seconds_left(), plan.updates
    if left is not None and seconds is not None:
        updates = max(1, min(updates, int(left / seconds)))
    return plan._replace(
        updates=updates, epochs=plan.epochs * updates / plan.updates, seconds=seconds
    )


def _is_measured(train: TrainConfig, updates: int) -> bool:
    """Return whether the speed is measured before a run of so many updates at most."""
    return train.max_minutes is not None or updates >= LEAST_MEASURED


def updates_per_epoch(recipe: Recipe, corpus: Corpus) -> int:
    """Return the number of batches of the first epoch."""
    train = recipe.train
    return len(corpus.epochs(recipe)(0).plan(train.batch_tokens, train.seed, 0))


def _with_batches(plan: Plan, corpus: ParallelCorpus) -> Plan:
    """Return the plan with batches halved until it has `ENOUGH_UPDATES` or the least batch.

    The time of an epoch is taken as the same for all sizes of batches.
    """
    recipe, updates = plan.recipe, plan.updates
    if recipe.train.max_updates is not None:
        return plan
    least = max(LEAST_BATCH, recipe.data.max_length + 1)
    while updates < ENOUGH_UPDATES and recipe.train.batch_tokens // 2 >= least:
        halved = _filled(recipe, {"train": {"batch_tokens": recipe.train.batch_tokens // 2}})
        if halved == recipe:
            break
        recipe = halved
        updates = max(1, round(plan.epochs * updates_per_epoch(recipe, corpus)))
    seconds = plan.seconds and plan.seconds * plan.updates / updates
    return plan._replace(recipe=recipe, updates=updates, seconds=seconds)


def _with_schedule(plan: Plan) -> TextRecipe:
    """Return the recipe with the regularisers and the schedule that suit the length of the run."""
    dropout = next(dropout for most, dropout in DROPOUTS if plan.epochs <= most)
    a_tenth, is_paper = round(WARMUP_SHARE * plan.updates), plan.recipe.train.schedule == "paper"
    a_minute = round(60 / plan.seconds) if plan.seconds else 0
    valid_every = max(1, plan.updates // VALIDATIONS, a_minute)
    # Spent patience begins the last part of the run. Before it, the rate must not have fallen.
    is_patient = "train.patience" not in plan.recipe.open and plan.recipe.train.patience > 0
    train: dict[str, Any] = {
        "cooldown": LAST_PART if is_patient else 1 - WARMUP_SHARE,
        # A shorter warm-up would raise the peak of the paper's schedule.
        "warmup": PAPER_WARMUP if is_paper else max(1, min(a_tenth, PAPER_WARMUP)),
        "valid_every": min(valid_every, 2000),
        "average": 0,
        "patience": 0,
    }
    if (rate := plan.recipe.train.learning_rate) and plan.recipe.train.optimizer == "muon":
        decay = min(MOST_DECAY, DECAY / (rate * plan.updates / 2))
        train["weight_decay"] = float(f"{decay:.2g}")
    if "train.warmup" in plan.recipe.open and not is_paper and _has_budget(plan.recipe):
        # Updates may take longer than measured, on a busy machine for example.
        train["warmup_share"] = WARMUP_SHARE
    if _has_budget(plan.recipe) and plan.epochs < (plan.recipe.train.max_epochs or 0) / LONGEST:
        # Nobody asked for a limit of epochs, and the run will not come near it.
        train["max_epochs"] = None
    if _stops_early(plan.recipe):
        train |= {
            "cooldown": LAST_PART,
            "max_epochs": LONGEST * (plan.recipe.train.max_epochs or 0),
            "valid_every": min(max(1, valid_every // CLOSER), 2000),
            "patience": PATIENCE,
        }
    return _filled(plan.recipe, {"model": {"dropout": dropout, "norm": "pre"}, "train": train})


def _open_keys(recipe: TextRecipe, section: str) -> set[str]:
    """Return the open keys of a section."""
    keys = (key.partition(".") for key in recipe.open)
    return {key for name, _, key in keys if name == section}


def _filled(recipe: TextRecipe, values: dict[str, dict[str, Any]]) -> TextRecipe:
    """Return the recipe with values for those of the given keys that are open."""
    sections = {
        name: getattr(recipe, name).model_copy(
            update={key: table[key] for key in table.keys() & _open_keys(recipe, name)}
        )
        for name, table in values.items()
    }
    return recipe.model_copy(update=sections)


def _lines(recipe: TextRecipe, plan: Plan, corpus: ParallelCorpus, tokens: int) -> list[str]:
    """Return lines that say what was chosen, and why this size."""
    model, train = recipe.model, recipe.train
    assert isinstance(model, TransformerConfig)
    minutes = math.ceil(plan.updates * (plan.seconds or 0.0) / 60)
    takes = f" in about {counted(minutes, 'minute')}" if minutes else ""
    muon = " with Muon" if train.optimizer == "muon" else ""
    rate = f"learning rate {train.learning_rate:g}{muon}, " if train.learning_rate else ""
    return [
        f"auto: {counted(corpus.size, 'pair')} with {tokens:,} target tokens, about "
        f"{counted(plan.updates, 'update')}{takes}, {_epochs(plan.epochs)}",
        f"auto: a {model.norm}-norm model of {model.encoder_layers} + {model.decoder_layers} "
        f"layers of width {model.d_model}, {plan.why_this_size}",
        f"auto: {corpus.facts()}, dropout {model.dropout:g}, batches of {train.batch_tokens:,} "
        f"tokens, {rate}guided alignment {train.guided_alignment:g}, length penalty "
        f"{recipe.decode.length_penalty:g}",
    ]


def _epochs(epochs: float) -> str:
    """Return a number of epochs in words."""
    return counted(math.floor(epochs), "epoch") if epochs >= 1 else "less than 1 epoch"
