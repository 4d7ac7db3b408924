import copy
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from crosshead.attention.dropout import Dropout
from crosshead.errors import UserError
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.system.progress import Silent
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.token_loss import token_loss
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.validation import Loss, Validation
from crosshead.text.batching import Batch, Pairs, collate
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.training import loop
from crosshead.training.checkpoint import (
    list_checkpoints,
    load_best,
    load_checkpoint,
    load_validated,
    load_weights,
)
from crosshead.training.context import Context, MainProcess
from crosshead.training.log import LOG, RunLog
from crosshead.training.loop import fit
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.schedule import STOPPED, EndKind, Overhead
from crosshead.training.setup import Setup
from tests.parameters import mostly_slow
from tests.sequences import copy_task
from tests.training.setups import setup_of

VOCABULARY = 12
PAIRS = copy_task(60, VOCABULARY, 6, seed=1)
SHAPE = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, dropout=0.2
)


@pytest.fixture(autouse=True)
def _no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def settings(**changed: Any) -> TrainConfig:
    """Four or five batches an epoch, a line of the log and a validation each second update."""
    values = {"batch_tokens": 80, "learning_rate": 0.01, "warmup": 5, "log_every": 2}
    values |= {"valid_every": 2, "patience": 0}
    return TrainConfig(**{**values, **changed})


def by_sum(weights: dict[str, Tensor]) -> Validation:
    """A score that is a function of the weights alone."""
    total = float(sum(weight.abs().sum() for weight in weights.values()))
    return Validation({"loss": total, "nll": total, "bleu": total % 7})


def scripted(*scores: float) -> Callable[[dict[str, Tensor]], Validation]:
    """The scores of one validation after another."""
    remaining = iter(scores)
    return lambda weights: Validation({"loss": 1.0, "nll": 1.0, "bleu": next(remaining)})


def begin(
    directory: Path,
    config: TrainConfig,
    *,
    resume: bool = False,
    validate: Callable[[dict[str, Tensor]], Validation] = by_sum,
    should_stop: Callable[[], bool] = lambda: False,
    dtype: torch.dtype = torch.float32,
) -> Setup:
    """A run as `crosshead.training.run` sets it up."""
    directory.mkdir(exist_ok=True)
    torch.manual_seed(config.seed)
    model = Transformer(SHAPE, VOCABULARY, VOCABULARY).to(dtype)
    optimizer = Optimizer(model, config)
    checkpoints, progress = directory / "checkpoints", Progress()
    if resume:
        progress = load_checkpoint(list_checkpoints(checkpoints)[-1], optimizer)
    log = RunLog(directory, keep=progress.log_bytes)
    main = MainProcess(validate, checkpoints)
    context = Context(should_stop=should_stop, log=log, main=main)
    return setup_of(config, progress, context, model=model, optimizer=optimizer, examples=PAIRS)


def run(directory: Path, config: TrainConfig, **more: Any) -> tuple[Setup, str]:
    training = begin(directory, config, **more)
    try:
        return training, fit(training).text
    finally:
        training.context.log.close()


def logged(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / LOG).read_text().splitlines()]


def digest(training: Setup) -> str:
    """Of weights and moments."""
    tensors = {**training.optimizer.weights(), **training.optimizer.state()}
    sums = hashlib.sha256()
    for name in sorted(tensors):
        sums.update(name.encode() + tensors[name].detach().numpy().tobytes())
    return sums.hexdigest()


def stopped_run(directory: Path, config: TrainConfig, update: int, **more: Any) -> Setup:
    """A run that is asked to stop after an update."""
    training = begin(directory, config, **more)
    training.context.should_stop = lambda: training.progress.update >= update
    assert fit(training) == STOPPED
    training.context.log.close()
    return training


def comparable(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What does not depend on the clock."""
    timed = {"seconds", "target_tokens_per_second", "peak_memory_bytes"}
    return [{key: line[key] for key in line.keys() - timed} for line in log]


RESUMED: list[tuple[int, dict[str, Any], torch.dtype]] = [
    (3, {}, torch.float32),  # in the middle of an epoch, where nothing is due
    (3, {}, torch.bfloat16),
    (6, {}, torch.float32),  # where a validation is due
    (7, {"valid_every": 0}, torch.float32),  # never due but at the end
    (4, {"checkpoint_every": 3}, torch.float32),
    (11, {"checkpoint_every": 3, "valid_every": 4}, torch.float32),
    (14, {}, torch.float32),  # at the very end
    (3, {"weight_decay": 0.5}, torch.float32),
    (3, {"ema": 0.8, "optimizer": "muon"}, torch.bfloat16),
    (6, {"consistency": "r-drop", "ema": 0.8}, torch.float32),
    (3, {"consistency": "simcut", "word_dropout": 0.2}, torch.float32),
    (3, {"schedule": "constant", "cooldown": 0.8}, torch.float32),
    (6, {"cooldown": 0.5, "max_epochs": 3}, torch.float32),
]
"""The update after which a run is stopped, what its settings change, and its precision."""


@pytest.mark.parametrize(
    ("stop", "changed", "dtype"),
    mostly_slow(RESUMED, [RESUMED[n] for n in (1, 2, 5, 9, 12)]),
)
def test_resumed_is_uninterrupted(
    tmp_path: Path, stop: int, changed: dict[str, float], dtype: torch.dtype
) -> None:
    config = settings(**{"max_updates": 14, "keep_last": 3, "average": 3, **changed})
    whole, reason = run(tmp_path / "whole", config, dtype=dtype)
    expected = digest(whole)

    stopped_run(tmp_path / "parts", config, stop, dtype=dtype)
    torch.manual_seed(99)
    resumed, resumed_reason = run(tmp_path / "parts", config, resume=True, dtype=dtype)
    assert digest(resumed) == expected
    assert resumed_reason == reason == "max_updates 14 is reached"
    for key in ("update", "epoch", "batch", "predictions", "best_update", "best_score"):
        assert getattr(resumed.progress, key) == getattr(whole.progress, key)
    assert resumed.progress.since_best == whole.progress.since_best
    names = [
        [place.name for place in list_checkpoints(tmp_path / part / "checkpoints")]
        for part in ("whole", "parts")
    ]
    assert names[0] == names[1]
    best = [load_best(tmp_path / part / "checkpoints") for part in ("whole", "parts")]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[0])


@pytest.mark.parametrize("update", [6, 14])
def test_a_run_that_is_stopped_while_it_validates_owes_that_validation(
    update: int, tmp_path: Path
) -> None:
    """On the way, and at its end."""
    config = settings(max_updates=14, keep_last=3, average=3)
    whole, _ = run(tmp_path / "whole", config)
    stopped = begin(tmp_path / "parts", config)
    asked = False

    def validate(weights: dict[str, Tensor]) -> Validation:
        nonlocal asked
        asked = stopped.progress.update == update
        if asked:
            raise Stopped
        return by_sum(weights)

    stopped.context.main.validate, stopped.context.should_stop = validate, lambda: asked
    fit(stopped)
    stopped.context.log.close()
    assert stopped.progress.update == update and stopped.progress.validated == update - 2
    resumed, _ = run(tmp_path / "parts", config, resume=True)
    assert digest(resumed) == digest(whole)
    assert resumed.progress.best_score == whole.progress.best_score
    found, wanted = comparable(logged(tmp_path / "parts")), comparable(logged(tmp_path / "whole"))
    assert found == wanted


def test_memory_that_ends_in_validation_costs_no_update(tmp_path: Path) -> None:
    def validate(weights: dict[str, Tensor]) -> Validation:
        raise MemoryError

    config = settings(max_updates=9, valid_every=5)
    with pytest.raises(UserError, match=r"update 5, which is saved; .*--resume.*decode.batch_tok"):
        run(tmp_path / "parts", config, validate=validate)
    whole, _ = run(tmp_path / "whole", config)
    resumed, _ = run(tmp_path / "parts", config, resume=True)
    assert digest(resumed) == digest(whole)


def test_a_pair_that_memory_does_not_hold_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any, **named: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(TokenTask, "loss", staticmethod(failing))
    training = begin(tmp_path, settings(max_updates=2))
    with pytest.raises(
        UserError, match=r"memory for update 1 on one pair of \d+ and \d+ tokens; resume with more"
    ):
        fit(training)
    training.context.log.close()


def test_no_checkpoint_gives_way_while_updates_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path, settings(max_updates=30, valid_every=0, checkpoint_every=1))
    training.recipe = SimpleNamespace(
        train=training.recipe.train.model_copy(update={"keep_last": 2})
    )  # type: ignore[assignment]
    break_gradients(training, set(range(6, 30)), monkeypatch)
    with pytest.raises(UserError, match="10 updates in a row, up to update 15"):
        fit(training)
    training.context.log.close()
    names = [place.name for place in list_checkpoints(tmp_path / "checkpoints")]
    assert names == ["update-00000004", "update-00000005"]


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    config = settings(max_updates=9, checkpoint_every=4, log_every=3, valid_every=3)
    whole, _ = run(tmp_path / "whole", config)
    expected = digest(whole)

    killed = begin(tmp_path / "parts", config)

    def explode() -> bool:
        if killed.progress.update == 7:
            raise KeyboardInterrupt
        return False

    killed.context.should_stop = explode
    with pytest.raises(KeyboardInterrupt):
        fit(killed)
    killed.context.log.close()
    resumed, _ = run(tmp_path / "parts", config, resume=True)
    assert digest(resumed) == expected
    found, wanted = comparable(logged(tmp_path / "parts")), comparable(logged(tmp_path / "whole"))
    assert [(line["kind"], line["update"]) for line in found] == [
        (line["kind"], line["update"]) for line in wanted
    ]


def test_a_finished_run_that_is_resumed_changes_nothing(tmp_path: Path) -> None:
    config = settings(max_epochs=1)
    first, _ = run(tmp_path, config)
    log, progress = logged(tmp_path), first.progress
    second, reason = run(tmp_path, config, resume=True)
    assert reason == "max_epochs 1 is reached"
    assert second.progress == progress
    assert logged(tmp_path) == log


def test_more_updates_can_be_asked_for(tmp_path: Path) -> None:
    run(tmp_path / "parts", settings(max_updates=5, valid_every=0))
    longer = settings(max_updates=12, valid_every=0)
    resumed, _ = run(tmp_path / "parts", longer, resume=True)
    found = digest(resumed)
    whole, _ = run(tmp_path / "whole", longer)
    assert digest(whole) == found


@pytest.mark.parametrize("budget", [{"max_updates": 13}, {"max_epochs": 3}, {"max_minutes": 2.0}])
def test_the_cooldown_ends_with_whatever_budget_ends_the_run(
    budget: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def forward(*arguments: Any, **named: Any) -> Any:
        nonlocal now
        now += 10  # seconds an update
        return token_loss(*arguments, **named)

    monkeypatch.setattr(loop.time, "perf_counter", lambda: now)
    monkeypatch.setattr(TokenTask, "loss", staticmethod(forward))
    config = settings(**budget, schedule="constant", cooldown=1.0, warmup=1, log_every=1)
    training, _ = run(tmp_path, config)
    updates = training.progress.update
    assert updates >= 12
    rates = [line["learning_rate"] for line in logged(tmp_path) if line["kind"] == "train"]
    assert rates == pytest.approx(
        [0.01 * (1 - done / updates) for done in range(updates)], abs=2e-4
    )


def test_the_budget_of_updates(tmp_path: Path) -> None:
    training, reason = run(tmp_path, settings(max_updates=3, max_epochs=50))
    assert (training.progress.update, reason) == (3, "max_updates 3 is reached")
    (place,) = (p for p in list_checkpoints(tmp_path / "checkpoints") if p.name.endswith("3"))
    assert load_checkpoint(place, training.optimizer).update == 3


def test_the_budget_of_epochs(tmp_path: Path) -> None:
    batches = len(Pairs(PAIRS).plan(80, 1, 0))
    batches += len(Pairs(PAIRS).plan(80, 1, 1))
    training, reason = run(tmp_path, settings(max_updates=500, max_epochs=2))
    assert (training.progress.epoch, training.progress.batch) == (2, 0)
    assert (training.progress.update, reason) == (batches, "max_epochs 2 is reached")


def test_the_budget_of_minutes_counts_all_parts_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def forward(*arguments: Any, **named: Any) -> Any:
        nonlocal now
        now += 10  # seconds an update
        return token_loss(*arguments, **named)

    def validate(weights: dict[str, Tensor]) -> Validation:
        nonlocal now
        now += 5
        return by_sum(weights)

    monkeypatch.setattr(loop.time, "perf_counter", lambda: now)
    monkeypatch.setattr(TokenTask, "loss", staticmethod(forward))
    # Every second update is followed by a validation: 25 seconds a pair of updates.
    config = settings(max_minutes=1.5, max_updates=500)
    stopped_run(tmp_path, config, 2, validate=validate)
    now += 10_000
    training, reason = run(tmp_path, config, resume=True, validate=validate)
    assert reason == "max_minutes 1.5 is reached"
    assert (training.progress.update, training.progress.seconds) == (8, 100.0)
    seconds = [line["seconds"] for line in logged(tmp_path) if line["kind"] == "valid"]
    assert seconds == [25, 50, 75, 100]
    speeds = [line for line in logged(tmp_path) if line["kind"] == "train"]
    tokens = [0] + [line["target_tokens"] for line in speeds]
    for line, before in zip(speeds, tokens, strict=False):
        expected = (line["target_tokens"] - before) / 20
        assert line["target_tokens_per_second"] == pytest.approx(expected, abs=0.06)


def timed(
    monkeypatch: pytest.MonkeyPatch, update: float, validation: float
) -> Callable[[dict[str, Tensor]], Validation]:
    """A clock that goes on with updates and validations alone, by so many seconds each."""
    now = 0.0

    def forward(*arguments: Any, **named: Any) -> Any:
        nonlocal now
        now += update
        return token_loss(*arguments, **named)

    def validate(weights: dict[str, Tensor]) -> Validation:
        nonlocal now
        now += validation
        return by_sum(weights)

    monkeypatch.setattr(loop.time, "perf_counter", lambda: now)
    monkeypatch.setattr(TokenTask, "loss", staticmethod(forward))
    return validate


def test_the_budget_of_minutes_leaves_time_for_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = timed(monkeypatch, 10, 5)
    training = begin(tmp_path, settings(max_minutes=4.0), validate=validate)
    training.overhead = Overhead(before=30, validations_after=6)
    reason = fit(training).text
    training.context.log.close()
    # 240 seconds, but for 30 before and 30 after: seven times two updates and a validation are 175.
    assert "max_minutes 4 is reached: validation" in reason and "about 30 seconds" in reason
    assert training.progress.minutes_spent == 4.0
    assert training.progress.update == 15
    assert 30 + training.progress.seconds + 5 * 5 <= 240 + 10  # the update under way


def test_half_of_the_minutes_show_how_long_a_validation_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = timed(monkeypatch, 10, 20)
    config = settings(max_minutes=4.0, valid_every=100)
    training = begin(tmp_path, config, validate=validate)
    training.overhead = Overhead(before=0, validations_after=3)
    fit(training)
    training.context.log.close()
    valid = [line["update"] for line in logged(tmp_path) if line["kind"] == "valid"]
    assert valid == [12, 16]
    assert training.progress.seconds + 2 * 20 <= 240


def test_half_of_the_minutes_of_fine_tuning_are_validated_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The validation before the first update does not count."""
    validate = timed(monkeypatch, 10, 20)
    training = begin(tmp_path, settings(max_minutes=4.0, valid_every=100), validate=validate)
    training.progress.validated, training.progress.tuned = -1, True
    training.overhead = Overhead(before=0, validations_after=3)
    fit(training)
    training.context.log.close()
    valid = [line["update"] for line in logged(tmp_path) if line["kind"] == "valid"]
    assert valid == [0, 10, 14]


@pytest.mark.parametrize("before", [130, 1000])
def test_a_budget_that_reading_has_used_up_still_trains_and_validates(
    before: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the minutes, or all of them, are gone before the first update."""
    validate = timed(monkeypatch, 10, 20)
    training = begin(tmp_path, settings(max_minutes=4.0, valid_every=100), validate=validate)
    training.overhead = Overhead(before=before, validations_after=1)
    reason = fit(training).text
    training.context.log.close()
    assert reason.startswith("max_minutes 4 is reached")
    valid = [line["update"] for line in logged(tmp_path) if line["kind"] == "valid"]
    assert valid[0] == 1 and valid[-1] == training.progress.update
    assert (training.progress.update == 1) == (before > 240)
    assert load_best(tmp_path / "checkpoints")


def test_a_resumed_run_without_a_measure_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(max_minutes=4.0, valid_every=100)
    stopped_run(tmp_path, config, 2, validate=timed(monkeypatch, 10, 20))
    training = begin(tmp_path, config, resume=True, validate=timed(monkeypatch, 10, 20))
    training.overhead = Overhead(before=125, validations_after=1)
    fit(training)
    training.context.log.close()
    assert training.progress.update > 3


def test_weights_that_are_given_are_validated_before_the_first_update(tmp_path: Path) -> None:
    training = begin(tmp_path, settings(max_updates=4), validate=scripted(9, 1, 2))
    training.progress.validated = -1
    given = {name: weight.clone() for name, weight in training.optimizer.weights().items()}
    fit(training)
    training.context.log.close()
    valid = [line for line in logged(tmp_path) if line["kind"] == "valid"]
    assert [(line["update"], line["best"]) for line in valid] == [(0, True), (2, False), (4, False)]
    assert training.progress.best_update == 0
    best = load_best(tmp_path / "checkpoints")
    assert all(torch.equal(weight, best[name]) for name, weight in given.items())
    names = [place.name for place in list_checkpoints(tmp_path / "checkpoints")]
    assert names == ["update-00000002", "update-00000004"]  # what is given is not averaged


def test_patience_ends_a_run_that_gets_no_better(tmp_path: Path) -> None:
    config = settings(max_updates=500, patience=3)
    scores = [10, 30, 20, 30, 40, 40, 40, 40, 50]
    training, reason = run(tmp_path, config, validate=scripted(*scores))
    assert reason == "3 validations brought nothing better"
    assert training.progress.update == 16  # the eighth validation
    assert (training.progress.best_update, training.progress.best_score) == (10, [40, -1.0])
    marks = [line["best"] for line in logged(tmp_path) if line["kind"] == "valid"]
    assert marks == [True, True, False, False, True, False, False, False]


def test_with_a_cooldown_the_rate_falls_to_0_once_patience_is_spent(tmp_path: Path) -> None:
    config = settings(
        max_updates=500, patience=3, schedule="constant", learning_rate=0.01, warmup=2,
        cooldown=0.2, log_every=1,
    )  # fmt: skip
    training, reason = run(tmp_path, config, validate=scripted(10, 30, 20, 30, 30, 40, 0, 0, 50))
    assert reason == (
        "3 validations brought nothing better, and the learning rate has fallen to 0 since"
    )
    assert training.progress.update == 13  # 10 / 0.8, from the fifth validation on
    rates = [line["learning_rate"] for line in logged(tmp_path) if line["kind"] == "train"]
    assert rates[9:] == pytest.approx([0.01, 0.01, 0.006, 0.002])
    assert training.progress.best_update == 12  # a better validation counts until the end


def test_the_part_that_is_done_never_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quicker validation leaves more time for updates, but the rate must not rise again."""
    shares = iter([0.0, 0.5, 0.4, 0.45, 0.6, 0.8])
    monkeypatch.setattr(loop, "fraction_done", lambda *arguments: next(shares, 1.0))
    config = settings(
        max_updates=6, schedule="constant", learning_rate=0.01, warmup=1, cooldown=1.0, log_every=1
    )
    run(tmp_path, config, validate=scripted(*range(9)))
    rates = [line["learning_rate"] for line in logged(tmp_path) if line["kind"] == "train"]
    assert rates == sorted(rates, reverse=True) and len(set(rates)) > 2


def test_patience_is_counted_from_the_end_of_the_warm_up(tmp_path: Path) -> None:
    config = settings(max_updates=500, patience=2, warmup=7)
    training, reason = run(tmp_path, config, validate=scripted(3, 0, 0, 0, 0, 0))
    assert reason == "2 validations brought nothing better"
    assert training.progress.update == 10  # updates 8 and 10: those at 4 and 6 do not count


def test_patience_is_counted_from_the_end_of_the_share_of_a_warm_up(tmp_path: Path) -> None:
    config = settings(max_updates=50, patience=2, warmup=49, warmup_share=0.1)
    training, _ = run(tmp_path, config, validate=scripted(3, 0, 0, 0, 0, 0))
    assert training.progress.update == 8  # updates 6 and 8: that at 4 does not count


def test_the_loss_decides_where_two_validations_have_the_same_bleu(tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0])

    def validate(weights: dict[str, Tensor]) -> Validation:
        return Validation({"loss": next(losses), "nll": 0.0, "bleu": 0.0})

    training, _ = run(tmp_path, settings(max_updates=6), validate=validate)
    assert training.progress.best_update == 4


def test_the_best_weights_are_those_that_validated_best(tmp_path: Path) -> None:
    config = settings(max_updates=8, keep_last=9)
    run(tmp_path, config, validate=scripted(10, 50, 20, 30))
    places = {place.name[-1]: place for place in list_checkpoints(tmp_path / "checkpoints")}
    assert list(places) == ["2", "4", "6", "8"]
    best = load_best(tmp_path / "checkpoints")
    for update, place in places.items():
        equal = [torch.equal(weight, best[name]) for name, weight in load_weights(place).items()]
        assert all(equal) if update == "4" else not all(equal)


def test_the_moving_average_is_validated_and_kept(tmp_path: Path) -> None:
    seen = []

    def validate(weights: dict[str, Tensor]) -> Validation:
        seen.append({name: weight.clone() for name, weight in weights.items()})
        return by_sum(weights)

    config = settings(max_updates=8, keep_last=9, ema=0.8)
    training, _ = run(tmp_path, config, validate=validate)
    places = list_checkpoints(tmp_path / "checkpoints")
    assert len(places) == len(seen) == 4
    for place, validated in zip(places, seen, strict=True):
        averages, weights = load_validated(place), load_weights(place)
        assert all(torch.equal(averages[name], validated[name]) for name in validated)
        assert not all(torch.equal(weights[name], validated[name]) for name in validated)
    best = load_best(tmp_path / "checkpoints")
    number = training.progress.best_update // 2 - 1
    assert all(torch.equal(best[name], seen[number][name]) for name in best)


@pytest.mark.parametrize("consistency", ["r-drop", "simcut"])
def test_the_log_states_the_divergence_that_the_loss_holds(
    consistency: str, tmp_path: Path
) -> None:
    config = settings(max_updates=4, label_smoothing=0.0, consistency=consistency)
    run(tmp_path, config)
    rows = [line for line in logged(tmp_path) if line["kind"] == "train"]
    for row in rows:
        assert row["consistency"] > 0
        assert row["loss"] == pytest.approx(row["nll"] + row["consistency"], rel=1e-6)
    assert all("consistency" not in row for row in logged(tmp_path) if row["kind"] == "valid")


def test_the_log_states_the_alignment_loss_that_the_loss_holds(tmp_path: Path) -> None:
    config = settings(max_updates=4, label_smoothing=0.0, guided_alignment=0.5)
    training = begin(tmp_path, config)
    aligner = WordAligner(Examples.of(PAIRS), VOCABULARY)
    training.corpus.epochs = lambda recipe: lambda epoch: Pairs(PAIRS, aligner=aligner)  # type: ignore[method-assign]
    fit(training)
    training.context.log.close()
    for row in logged(tmp_path):
        if row["kind"] == "train":
            assert row["alignment"] > 0
            assert row["loss"] == pytest.approx(row["nll"] + row["alignment"], rel=1e-6)
        else:
            assert "alignment" not in row


def test_the_loss_can_be_what_validation_compares(tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0])

    def validate(weights: dict[str, Tensor]) -> Validation:
        return Validation({"loss": next(losses), "nll": 0.0, "bleu": 50.0})

    training, _ = run(tmp_path, settings(max_updates=6, metric="loss"), validate=validate)
    assert (training.progress.best_update, training.progress.best_score) == (4, [-1.0, 50.0])


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    config = settings(max_updates=10, checkpoint_every=3, keep_last=2, average=2)
    run(tmp_path, config)
    updates = [int(place.name[-8:]) for place in list_checkpoints(tmp_path / "checkpoints")]
    assert updates == [9, 10]


def test_a_stop_saves_what_there_is_without_validating(tmp_path: Path) -> None:
    def validate(weights: dict[str, Tensor]) -> Validation:
        pytest.fail("somebody waits for the run to end")

    training = stopped_run(tmp_path, settings(max_updates=9), 2, validate=validate)
    (place,) = list_checkpoints(tmp_path / "checkpoints")
    assert load_checkpoint(place, training.optimizer).update == 2


def test_the_log_says_what_the_contract_says(tmp_path: Path) -> None:
    training, _ = run(tmp_path, settings(max_epochs=1, valid_every=0))
    lines = logged(tmp_path)
    train = [line for line in lines if line["kind"] == "train"]
    assert {frozenset(line) for line in train} == {
        frozenset(
            ["kind", "update", "epoch", "seconds", "loss", "nll", "target_tokens", "learning_rate",
             "target_tokens_per_second", "gradient_norm", "peak_memory_bytes", "skipped"]
        )
    }  # fmt: skip
    last = training.progress.update
    assert [line["update"] for line in train] == sorted({*range(2, last, 2), last})
    assert train[-1]["target_tokens"] == sum(len(target) + 1 for _, target in PAIRS)
    assert train[0]["learning_rate"] == pytest.approx(0.01 * 2 / 5)
    # A new model knows nothing: a loss not far from that of a guess, log(12).
    assert 1 < train[0]["nll"] < 10 and train[0]["loss"] > 0
    assert train[0]["gradient_norm"] > 0 and train[0]["peak_memory_bytes"] > 10**7
    (valid,) = (line for line in lines if line["kind"] == "valid")
    assert set(valid) == {"kind", "update", "epoch", "seconds", "loss", "nll", "bleu", "best"}
    assert valid["update"] == last and valid["epoch"] == 1


def test_gradients_are_of_the_mean_over_target_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path, settings(max_updates=1, batch_tokens=10_000, clip_norm=0.0))
    training.model.apply(without_dropout)
    expected = copy.deepcopy(training.model)
    batch = collate(PAIRS, range(len(PAIRS)))
    sums = token_loss(expected, batch, training.recipe.train)
    (sums.sums["loss"] / sum(len(target) + 1 for _, target in PAIRS)).backward()
    found: dict[str, Tensor] = {}

    def step(rate: float, replicas: object) -> float:
        found.update((name, p.grad) for name, p in training.model.named_parameters())
        return 1.0

    monkeypatch.setattr(training.optimizer, "step", step)
    fit(training)
    training.context.log.close()
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


def without_dropout(module: torch.nn.Module) -> None:
    if isinstance(module, Dropout):
        module.p = 0.0


def break_gradients(training: Setup, updates: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a gradient infinite in those updates, counted from 1."""

    def broken(*arguments: Any, **named: Any) -> Any:
        sums = token_loss(*arguments, **named)
        if training.progress.update + 1 not in updates:
            return sums
        return Loss({**sums.sums, "loss": sums.sums["loss"] * float("inf")}, sums.count)

    monkeypatch.setattr(TokenTask, "loss", staticmethod(broken))


@pytest.mark.slow
@pytest.mark.parametrize(("every", "skipped"), mostly_slow([(100, 1), (10, 10)], [(10, 10)]))
def test_a_share_of_updates_without_finite_gradients_is_left_out(
    every: int, skipped: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 and 10 % of them; all of them end the run."""
    training = begin(tmp_path, settings(max_updates=100, valid_every=0, log_every=100))
    break_gradients(training, set(range(every, 101, every)), monkeypatch)
    assert fit(training).kind is EndKind.MAX_UPDATES
    training.context.log.close()
    assert training.progress.skipped == skipped
    assert logged(tmp_path)[0]["skipped"] == skipped
    steps = {int(v) for k, v in training.optimizer.state().items() if k.endswith(".step")}
    assert steps == {100 - skipped}
    assert all(weight.isfinite().all() for weight in training.optimizer.weights().values())


def test_gradients_that_stay_infinite_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path, settings(max_updates=50))
    break_gradients(training, set(range(4, 50)), monkeypatch)
    with pytest.raises(UserError) as caught:
        fit(training)
    training.context.log.close()
    message = str(caught.value)
    assert "10 updates in a row, up to update 13" in message and "learning_rate" in message
    assert "\n" not in message


def test_single_infinite_gradients_are_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path, settings(max_updates=30))
    break_gradients(training, set(range(1, 31)) - {9, 18, 27}, monkeypatch)
    fit(training)
    training.context.log.close()
    assert training.progress.skipped == 27
    steps = {float(v) for k, v in training.optimizer.state().items() if k.endswith(".step")}
    assert steps == {3.0}


def test_every_epoch_shows_every_pair_once_in_another_order(tmp_path: Path) -> None:
    orders: dict[int, list[int]] = {}
    training = begin(tmp_path, settings(max_epochs=3))

    class Spied(Pairs):
        def collate(self, rows: Sequence[int]) -> Batch:
            orders[max(orders)].extend(rows)
            return super().collate(rows)

    def pairs(epoch: int) -> Pairs:
        orders[epoch] = []
        return Spied(PAIRS)

    training.corpus.epochs = lambda recipe: pairs  # type: ignore[method-assign]
    fit(training)
    training.context.log.close()
    assert list(orders) == [0, 1, 2]
    assert all(sorted(order) == list(range(len(PAIRS))) for order in orders.values())
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_the_examples_of_an_epoch_are_asked_for_by_its_number(tmp_path: Path) -> None:
    asked: list[int] = []
    training = begin(tmp_path, settings(max_epochs=3))

    def pairs(epoch: int) -> Pairs:
        asked.append(epoch)
        return Pairs(PAIRS)

    training.corpus.epochs = lambda recipe: pairs  # type: ignore[method-assign]
    fit(training)
    training.context.log.close()
    assert asked == [0, 1, 2]


class Watching(Silent):
    """Keeps how far the bar went, and its figures, after every so many updates."""

    def __init__(self, every: int = 1) -> None:
        self.shares: list[float] = []
        self.lines: list[str] = []
        self._asked = itertools.count(1)
        self._every = every

    def due(self) -> bool:
        return next(self._asked) % self._every == 0

    def advance(self, fraction: float, line: str) -> None:
        self.shares.append(fraction)
        self.lines.append(line)


def test_the_bar_moves_within_an_epoch(tmp_path: Path) -> None:
    training = begin(tmp_path, settings(max_epochs=2, log_every=1, valid_every=0))
    training.context.display = watching = Watching()
    fit(training)
    training.context.log.close()
    first = len(Pairs(PAIRS).plan(80, 1, 0))
    second = len(Pairs(PAIRS).plan(80, 1, 1))
    expected = [0.0, *(batch / first / 2 for batch in range(1, first + 1))]
    expected += [0.5 + batch / second / 2 for batch in range(1, second + 1)]
    assert watching.shares == pytest.approx(expected)


def test_skipped_updates_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = begin(tmp_path, settings(max_updates=6))
    training.context.display = watching = Watching(every=2)
    applied, step = iter([True, False, True, True, False, True]), training.optimizer.step
    monkeypatch.setattr(
        training.optimizer, "step", lambda *given: step(*given) if next(applied) else None
    )
    fit(training)
    training.context.log.close()
    lines = [line for line in logged(tmp_path) if line["kind"] == "train"]
    assert [line["skipped"] for line in lines] == [1, 1, 2]
    assert [line[-9:] for line in watching.lines[1:]] == ["1 skipped", "1 skipped", "2 skipped"]


def test_where_no_update_was_finite_there_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path, settings(max_updates=4, valid_every=0))
    training.context.display = watching = Watching(every=2)
    break_gradients(training, {1, 2}, monkeypatch)
    fit(training)
    training.context.log.close()
    first, second = (line for line in logged(tmp_path) if line["kind"] == "train")
    assert [first[key] for key in ("loss", "nll", "gradient_norm")] == [None] * 3
    assert all(second[key] > 0 for key in ("loss", "nll", "gradient_norm"))
    assert "epoch 0  no finite update  " in watching.lines[1]
    assert f"  nll {second['nll']:.3f}  " in watching.lines[2]


def test_without_label_smoothing_the_loss_is_shown(tmp_path: Path) -> None:
    training = begin(tmp_path, settings(max_updates=2, valid_every=0, label_smoothing=0.0))
    training.context.display = watching = Watching(every=2)
    fit(training)
    training.context.log.close()
    (line,) = (line for line in logged(tmp_path) if line["kind"] == "train")
    assert line["loss"] == line["nll"]
    assert f"  loss {line['loss']:.3f}  " in watching.lines[1]


def test_figures_are_shown_when_they_are_due_and_logged_by_updates(tmp_path: Path) -> None:
    training = begin(tmp_path, settings(max_updates=9, valid_every=0, log_every=4))
    training.context.display = watching = Watching(every=3)
    fit(training)
    training.context.log.close()
    shown = [line.split()[1] for line in watching.lines[1:]]
    assert shown == ["3", "6", "9"]
    assert [line["update"] for line in logged(tmp_path) if line["kind"] == "train"] == [4, 8, 9]


def test_a_run_whose_gradients_stay_infinite_ends_no_later_for_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(max_updates=50, valid_every=0)
    broken = begin(tmp_path, config)
    break_gradients(broken, set(range(4, 50)), monkeypatch)
    broken.context.should_stop = lambda: broken.progress.update == 8
    assert fit(broken) == STOPPED
    broken.context.log.close()
    resumed = begin(tmp_path, config, resume=True)
    break_gradients(resumed, set(range(4, 50)), monkeypatch)
    with pytest.raises(UserError, match="10 updates in a row, up to update 13,"):
        fit(resumed)
    resumed.context.log.close()
