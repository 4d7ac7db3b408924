import gc
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.dropout import Dropout
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.validation import Loss
from crosshead.text.batching import Batch, Pairs, collate
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.training.distributed import ALONE
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress, UpdateResult
from crosshead.training.setup import recompute_activations
from crosshead.training.updater import RowTooLarge, Updater, draw_seed, replica_of
from crosshead.vocabulary import PAD
from tests.parameters import mostly_slow
from tests.sequences import copy_task
from tests.training.setups import update_of

SHAPE = TransformerConfig(
    encoder_layers=1, decoder_layers=2, d_model=16, d_ff=32, heads=2, dropout=0.2
)
VOCABULARY = 20
PAIRS = copy_task(40, VOCABULARY, 12, seed=1)
ROWS = np.arange(30)
PLAIN = Pairs(PAIRS)
GUIDED = Pairs(PAIRS, aligner=WordAligner(Examples.of(PAIRS), VOCABULARY))


def updater(
    *,
    microbatches: int = 1,
    parallel: int = 1,
    dropout: bool = False,
    dtype: torch.dtype = torch.float64,
    seed: int = 1,
    recompute: bool = False,
    consistency: str = "none",
    guided_alignment: float = 0.0,
) -> Updater:
    torch.manual_seed(0)
    model = Transformer(SHAPE, VOCABULARY, VOCABULARY).to(dtype)
    if not dropout:
        for module in model.modules():
            if isinstance(module, Dropout):
                module.p = 0.0
    if recompute:
        recompute_activations(model)
    config = TrainConfig.model_validate(
        {"max_updates": 9, "learning_rate": 0.01, "clip_norm": 0.0, "seed": seed}
        | {"consistency": consistency, "guided_alignment": guided_alignment}
    )
    optimizer, progress = Optimizer(model, config), Progress(microbatches=microbatches)
    return Updater(TASKS["translation"], model, optimizer, config, progress, print, ALONE, parallel)


def gradients(
    made: Updater, monkeypatch: pytest.MonkeyPatch, epoch: Pairs = PLAIN
) -> tuple[UpdateResult, dict[str, Tensor]]:
    """What an update says of itself, and the gradients it would apply."""
    found: dict[str, Tensor] = {}

    def step(rate: float, replicas: Sequence[Transformer]) -> float:
        for model in (made.model, *replicas):
            for name, p in model.named_parameters():
                if p.grad is not None:
                    found[name] = found.get(name, 0) + p.grad
        return 1.0

    sums, count = made.gradients(epoch, ROWS)
    return UpdateResult(sums, count, step(0.01, made.replicas)), found


def assert_alike(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("consistency", ["none", "r-drop"])
@pytest.mark.parametrize("microbatches", mostly_slow([2, 3, 7, 30, 99], [2, 7, 99]))
def test_microbatches_add_up_to_the_whole_batch(
    microbatches: int, consistency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, expected = gradients(updater(consistency=consistency), monkeypatch)
    made = updater(microbatches=microbatches, consistency=consistency)
    found, split = gradients(made, monkeypatch)
    assert found.count == whole.count == sum(len(PAIRS[row][1]) + 1 for row in ROWS)
    assert found.sums["loss"] == pytest.approx(whole.sums["loss"], rel=1e-12)
    assert found.sums["nll"] == pytest.approx(whole.sums["nll"], rel=1e-12)
    assert_alike(split, expected, 1e-12)


@pytest.mark.parametrize("consistency", ["none", "simcut"])
def test_alignments_add_up_to_those_of_the_whole_batch(
    consistency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = gradients(updater(), monkeypatch, GUIDED)
    assert plain.sums["alignment"] == 0
    how: dict[str, Any] = {"guided_alignment": 0.7, "consistency": consistency}
    whole, expected = gradients(updater(**how), monkeypatch, GUIDED)
    found, split = gradients(updater(microbatches=3, **how), monkeypatch, GUIDED)
    assert whole.sums["alignment"] > 0
    if consistency == "none":  # which tokens `simcut` cuts depends on the microbatch
        assert found.sums == pytest.approx(whole.sums, rel=1e-6)
        assert_alike(split, expected, 1e-6)
    threads = updater(microbatches=3, parallel=2, dropout=True, **how)
    alone = updater(microbatches=6, dropout=True, **how)
    for each in (threads, alone):
        update_of(each, GUIDED, ROWS, 0.01)
    assert_alike(threads.optimizer.weights(), alone.optimizer.weights(), 1e-9)


@pytest.mark.parametrize(
    ("microbatches", "parallel", "consistency", "recompute"),
    mostly_slow(
        [
            (*each, recompute)
            for each in [
                (1, 2, "none"), (3, 2, "none"), (1, 4, "none"), (20, 3, "none"), (3, 2, "simcut"),
            ]
            for recompute in (False, True)
        ],
        [(1, 4, "none", False), (3, 2, "simcut", True)],
    ),
)  # fmt: skip
def test_parallel_microbatches_equal_sequential_ones(
    microbatches: int, parallel: int, consistency: str, *, recompute: bool
) -> None:
    """With dropout: gradients over several updates, and so the weights, to rounding."""

    def made(microbatches: int, parallel: int) -> Updater:
        return updater(
            microbatches=microbatches, parallel=parallel, dropout=True, recompute=recompute,
            consistency=consistency,
        )  # fmt: skip

    one, many = made(microbatches * parallel, 1), made(microbatches, parallel)
    for number in range(3):
        one.progress.update = many.progress.update = number
        expected, found = (
            update_of(one, Pairs(PAIRS), ROWS, 0.01),
            update_of(many, Pairs(PAIRS), ROWS, 0.01),
        )
        assert found.sums["loss"] == pytest.approx(expected.sums["loss"], rel=1e-12)
        assert found.norm == pytest.approx(expected.norm, rel=1e-12)
        assert found.count == expected.count
    assert_alike(many.optimizer.weights(), one.optimizer.weights(), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("consistency", mostly_slow(["none", "simcut"], ["simcut"]))
def test_parallel_microbatches_give_the_same_weights_every_time(consistency: str) -> None:
    def weights() -> dict[str, Tensor]:
        made = updater(
            microbatches=2, parallel=2, dropout=True, dtype=torch.bfloat16, consistency=consistency
        )
        for number in range(4):
            made.progress.update = number
            update_of(made, Pairs(PAIRS), ROWS, 0.01)
        return made.optimizer.weights()

    first = weights()
    for _ in range(5):
        assert all(map(torch.equal, weights().values(), first.values()))


def test_one_thread_of_several_that_fails_is_heard_and_its_microbatch_split(
    little_memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = updater(parallel=2)
    found, split = gradients(made, monkeypatch)
    assert sorted(little_memory[:2]) == [15, 15]  # in parallel
    assert little_memory[2:] == [15, 8, 8, 7, 7]
    assert made.progress.microbatches == 4 and not made.progress.in_parallel
    monkeypatch.setattr(TokenTask, "loss", staticmethod(token_loss))
    whole, expected = gradients(updater(parallel=2), monkeypatch)
    assert found.sums["loss"] == pytest.approx(whole.sums["loss"])
    assert_alike(split, expected, 1e-12)


def test_microbatches_that_memory_does_not_hold_at_once_are_computed_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The random draws stay the same. A batch of two pairs has no more than two microbatches."""

    def limited(model: Transformer, batch: Batch, settings: TrainConfig) -> Loss:
        if model is not made.model:
            raise MemoryError
        return token_loss(model, batch, settings)

    monkeypatch.setattr(TokenTask, "loss", staticmethod(limited))
    made = updater(parallel=2, dropout=True)
    found = update_of(made, Pairs(PAIRS), ROWS[:2], 0.01)
    assert (made.progress.microbatches, made.progress.in_parallel) == (2, False)
    assert capsys.readouterr().out == (
        "not enough memory for update 1: batches are computed one microbatch at a time from here "
        "on\n"
    )
    monkeypatch.setattr(TokenTask, "loss", staticmethod(token_loss))
    plenty = updater(parallel=2, dropout=True)
    expected = update_of(plenty, Pairs(PAIRS), ROWS[:2], 0.01)
    assert found.sums["loss"] == pytest.approx(expected.sums["loss"], rel=1e-12)
    assert_alike(made.optimizer.weights(), plenty.optimizer.weights(), 1e-9)
    config, progress = made.config, made.progress
    again = Updater(
        TASKS["translation"], made.model, made.optimizer, config, progress, print, ALONE, parallel=2
    )
    monkeypatch.setattr(TokenTask, "loss", staticmethod(limited))
    update_of(again, Pairs(PAIRS), ROWS[:2], 0.01)
    assert capsys.readouterr().out == ""  # a run that goes on does not try again


def test_memory_that_ends_in_the_step_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller microbatches would not help; and what Adam has begun it could not begin again."""
    made, steps = updater(parallel=2), []

    def step(*arguments: object) -> float:
        steps.append(arguments)
        raise MemoryError

    monkeypatch.setattr(made.optimizer.adam, "step", step)
    with pytest.raises(MemoryError):
        update_of(made, Pairs(PAIRS), ROWS, 0.01)
    assert len(steps) == 1


def test_a_replica_shares_weights_and_has_gradients_of_its_own() -> None:
    torch.manual_seed(0)
    model = Transformer(SHAPE, VOCABULARY, VOCABULARY)
    replica = replica_of(model)
    batch = collate(PAIRS, [0, 1])
    token_loss(replica, batch, LabelSmoothing(0.1)).sums["loss"].backward()
    assert all(each.grad is not None for each in replica.parameters())
    assert all(each.grad is None for each in model.parameters())
    for other in model.parameters():
        torch.nn.init.normal_(other)
    for own, other in zip(replica.parameters(), model.parameters(), strict=True):
        assert torch.equal(own, other)
    assert [name for name, _ in replica.named_parameters()] == [
        name
        for name, _ in model.named_parameters()  # what is tied is tied
    ]


@pytest.mark.parametrize("parallel", [1, 2])
def test_what_a_failed_attempt_held_is_free_before_the_next(
    parallel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the garbage collector, which comes too late where memory has run out."""
    held: list[weakref.ref[Tensor]] = []
    alive_at_retry: list[bool] = []

    def failing(model: Transformer, batch: Batch, settings: TrainConfig) -> Loss:
        if len(held) < parallel:
            activations = torch.ones(1000)
            held.append(weakref.ref(activations))
            raise MemoryError
        alive_at_retry.extend(reference() is not None for reference in held)
        return token_loss(model, batch, settings)

    monkeypatch.setattr(TokenTask, "loss", staticmethod(failing))
    made = updater(parallel=parallel)
    gc.collect()
    gc.disable()
    try:
        update_of(made, Pairs(PAIRS), ROWS, 0.01)
    finally:
        gc.enable()
    assert alive_at_retry
    assert not any(alive_at_retry)


def test_recomputed_activations_give_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout, which draws the same again."""
    _, expected = gradients(updater(dropout=True), monkeypatch)
    _, found = gradients(updater(dropout=True, recompute=True), monkeypatch)
    assert_alike(found, expected, 1e-12)


def test_what_is_drawn_is_a_function_of_seed_update_and_microbatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _expected = gradients(updater(dropout=True, microbatches=2), monkeypatch)
    torch.manual_seed(99)
    assert gradients(updater(dropout=True, microbatches=2), monkeypatch)[0] == first
    others = updater(dropout=True, microbatches=2), updater(dropout=True, microbatches=2, seed=2)
    others[0].progress.update = 1
    assert (
        len(
            {first.sums["loss"], *(gradients(each, monkeypatch)[0].sums["loss"] for each in others)}
        )
        == 3
    )
    same = Pairs([PAIRS[0]] * len(ROWS))
    one, two = (gradients(updater(dropout=True, microbatches=n), monkeypatch, same)[0].sums["loss"]
                for n in (1, 2))  # fmt: skip
    halves = updater(dropout=True)
    half = update_of(halves, same, ROWS[:15], 0.0).sums["loss"]
    assert len({one, two, 2 * half}) == 3  # the second half draws other numbers than the first
    seeds = {
        draw_seed(seed, update, microbatch)
        for seed in (0, 1)
        for update in (0, 1)
        for microbatch in (0, 1)
    }
    assert len(seeds) == 8


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Memory for batches of 8 pairs, and the sizes of those that were asked for."""
    asked: list[int] = []

    def limited(model: Transformer, batch: Batch, settings: TrainConfig) -> Loss:
        asked.append(len(batch.source))
        if len(batch.source) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
        return token_loss(model, batch, settings)

    monkeypatch.setattr(TokenTask, "loss", staticmethod(limited))
    return asked


def test_a_batch_that_memory_does_not_hold_is_split_and_the_run_goes_on(
    little_memory: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = updater()
    found, split = gradients(made, monkeypatch)
    assert little_memory == [30, 15, 8, 8, 7, 7]
    assert made.progress.microbatches == 4
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == (
        "not enough memory for update 1: batches are computed in 4 microbatches from here on"
    )
    monkeypatch.setattr(TokenTask, "loss", staticmethod(token_loss))
    whole, expected = gradients(updater(), monkeypatch)
    assert found.sums["loss"] == pytest.approx(whole.sums["loss"])
    assert_alike(split, expected, 1e-12)


def test_memory_that_ends_on_the_way_back_leaves_no_half_of_a_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = updater(microbatches=2)
    backward, calls = made.optimizer.backward, []

    def failing(loss: Tensor) -> None:
        backward(loss)
        calls.append(loss)
        if len(calls) == 2:
            raise MemoryError

    monkeypatch.setattr(made.optimizer, "backward", failing)
    _, found = gradients(made, monkeypatch)
    assert len(calls) == 2 + 4
    _, expected = gradients(updater(), monkeypatch)
    assert_alike(found, expected, 1e-12)


def test_other_errors_and_single_pairs_are_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in (RuntimeError("something else"), MemoryError()):

        def broken(*arguments: object, error: Exception = error, **named: object) -> Loss:
            raise error

        monkeypatch.setattr(TokenTask, "loss", staticmethod(broken))
        made = updater()
        with pytest.raises(RowTooLarge if isinstance(error, MemoryError) else RuntimeError):
            update_of(made, Pairs(PAIRS), ROWS[:4], 0.01)
        assert made.progress.microbatches == (1 if isinstance(error, RuntimeError) else 4)


def test_a_batch_counts_its_target_tokens_and_leaves_padding_out() -> None:
    torch.manual_seed(0)
    model = Transformer(SHAPE, VOCABULARY, VOCABULARY).eval()
    batch = collate(PAIRS, [0, 1, 2, 3])
    assert (batch.target_output == PAD).any()
    sums = token_loss(model, batch, LabelSmoothing(0.1))
    logits = model(batch.source, batch.target_input)
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=PAD, label_smoothing=0.1,
        reduction="sum",
    )  # fmt: skip
    torch.testing.assert_close(sums.sums["loss"], expected)
    assert sums.count == sum(len(PAIRS[row][1]) + 1 for row in range(4))
