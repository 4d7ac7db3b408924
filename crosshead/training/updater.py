"""The gradients of one update, from all microbatches of a batch.

The result of an update is the same, except for rounding, for any number of threads and processes.
Losses are sums, divided by the number of predictions in the whole batch, and dropout draws depend
on (seed, update, microbatch) alone. Without dropout the result is also the same for any number of
microbatches.

On a CPU several microbatches are computed in parallel, one thread each, on replicas of the model.
Most operations of a sentence model are too small for several cores to share.
"""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from crosshead.attention.dropout import drawing_from
from crosshead.errors import is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.corpus import Epoch
from crosshead.tasks.validation import Loss
from crosshead.training.distributed import ALONE, World
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.replay import NotRecorded, Replay, check_replayable


class RowTooLarge(MemoryError):
    """Raised if memory does not suffice even for one row at a time."""


class Microbatch(NamedTuple):
    """A part of a batch that is computed at once."""

    seed: int
    """The seed of its dropout."""
    batch: Any
    weight: int
    """1, or 0 for the stand-in of a process that has no microbatch of its own."""
    scale: float
    """The factor from the sum of its losses to its contribution to the mean of the whole batch."""
    is_last: bool
    """True for the last microbatch that this process computes for the batch."""


class Updater:
    """Computes the gradients of the updates of a run.

    With several processes (`world`), each process computes its share of the microbatches. A single
    process computes `parallel` microbatches at a time, in threads that share PyTorch's threads.
    """

    def __init__(
        self,
        task: Task,
        model: Model,
        optimizer: Optimizer,
        config: TrainConfig,
        progress: Progress,
        say: Callable[[str], None] = lambda line: None,
        world: World = ALONE,
        parallel: int = 1,
    ) -> None:
        assert parallel == 1 or world.size == 1, "processes compute one microbatch at a time"
        self.model, self.optimizer, self.config = model.train(), optimizer, config
        self.progress, self.say, self.world = progress, say, world
        further = parallel - 1 if progress.in_parallel else 0
        self.replicas = [replica_of(model) for _ in range(further)]
        self._losses: list[Callable[[Any], Loss]] = [
            partial(task.loss, each, settings=config) for each in (model, *self.replicas)
        ]
        self._replay: Replay | None = None
        if config.cuda_graphs:
            check_replayable(model, optimizer.device, world.size)
            self._replay = Replay(model, self._losses[0])
        self._pool = ThreadPoolExecutor(parallel, "microbatch")
        self._threads = torch.get_num_threads()
        self._no_sync: Callable[[], contextlib.AbstractContextManager[object]] = (
            contextlib.nullcontext
        )
        if world.size > 1 and not config.sharded:
            replicated = _replicated(_BatchLoss(model, self._losses[0]))
            self._losses, self._no_sync = [replicated], replicated.no_sync

    def gradients(self, epoch: Epoch, rows: np.ndarray) -> tuple[dict[str, float], int]:
        """Add up the gradients of a batch; return its losses and its number of predictions.

        If memory runs out, the microbatches of this batch and of all later batches are computed
        sequentially. If it still runs out, each batch is split into twice as many microbatches.
        """
        try:
            microbatches, count = self._microbatches(epoch, rows)
            if self.replicas:
                return self._total(self._in_parallel(microbatches)), count
            found = []
            for each in microbatches:
                with self._drawing(each):
                    if self._replay is not None:
                        scale = each.scale * self.optimizer.scale
                        found.append(self._replay.add_gradients(each.batch, scale))
                    else:
                        batch = each.batch.to(self.optimizer.device)
                        found.append(self._backward(each, self._losses[0](batch)))
            return self._total(found), count
        except (MemoryError, RuntimeError) as error:
            not_recorded = isinstance(error, NotRecorded)
            if not (not_recorded or is_out_of_memory(error)) or self.world.size > 1:
                raise
            why = f"no CUDA graph ({error})" if not_recorded else "not enough memory"
            is_split = not self.replicas and self._replay is None
            if is_split and self._number_of_microbatches() >= len(rows):
                raise RowTooLarge from None
        self._use_less_memory(why)  # here, the memory of the failed attempt is free again
        return self.gradients(epoch, rows)

    def _microbatches(self, epoch: Epoch, rows: np.ndarray) -> tuple[list[Microbatch], int]:
        """Return this process's microbatches, and the number of predictions in the whole batch.

        Every process gets the same number of microbatches, because sharding needs that. A process
        without a microbatch of its own gets a stand-in that counts nothing.
        """
        config, update, world = self.config, self.progress.update, self.world
        split = np.array_split(rows, min(len(rows), self._number_of_microbatches()))
        numbers = range(world.rank, world.rank + len(split), world.size)
        weights = [int(number < len(split)) for number in numbers]
        own = [split[number] if number < len(split) else rows[:1] for number in numbers]
        batches = [epoch.collate(each.tolist()) for each in own]
        counted = sum(w * batch.count for w, batch in zip(weights, batches, strict=True))
        count = int(world.total(torch.tensor(float(counted), dtype=torch.float64)))
        microbatches = [
            # PyTorch averages the gradients over the processes; `world.size` makes it a sum.
            Microbatch(
                draw_seed(config.seed, update, number), batch, weight, weight * world.size / count,
                is_last=number == numbers[-1],
            )
            for number, batch, weight in zip(numbers, batches, weights, strict=True)
        ]  # fmt: skip
        return microbatches, count

    def _in_parallel(self, microbatches: Sequence[Microbatch]) -> list[dict[str, Tensor]]:
        """Compute microbatches in a thread for each replica."""
        parallel = len(self._losses)

        def compute(number: int) -> list[dict[str, Tensor]]:
            torch.set_num_threads(max(1, self._threads // parallel))  # of this thread
            found = []
            for each in microbatches[number::parallel]:
                with self._drawing(each):
                    found.append(self._backward(each, self._losses[number](each.batch)))
            return found

        started = [self._pool.submit(compute, number) for number in range(parallel)]
        wait(started)  # for all threads, even if one fails, so that none runs on
        torch.set_num_threads(self._threads)  # PyTorch also keeps a number for the whole process
        found = []
        while started:  # `pop`: an error must not keep its own frames, and their tensors, alive
            found += started.pop(0).result()
        return found

    def _backward(self, microbatch: Microbatch, loss: Loss) -> dict[str, Tensor]:
        """Add the gradients of a microbatch, and return the sums of its loss."""
        self.optimizer.backward(loss.sums["loss"] * microbatch.scale)
        return {
            name: microbatch.weight * value.detach().double() for name, value in loss.sums.items()
        }

    @contextlib.contextmanager
    def _drawing(self, microbatch: Microbatch) -> Iterator[None]:
        """Draw the dropout of a microbatch in the block.

        Several processes exchange gradients in the backward pass of the last microbatch alone.
        """
        synchronised = contextlib.nullcontext() if microbatch.is_last else self._no_sync()
        with seeded(microbatch.seed, self.optimizer.device), synchronised:
            yield

    def _total(self, losses: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """Add up the losses of all microbatches, in all processes."""
        names = sorted(losses[0])
        sums = torch.stack([torch.stack([each[name] for each in losses]).sum() for name in names])
        return dict(zip(names, self.world.total(sums).tolist(), strict=True))

    def _use_less_memory(self, why: str) -> None:
        """Compute without graphs, then microbatches sequentially, then twice as many of them."""
        self.optimizer.drop_gradients()
        was_replayed, self._replay = self._replay is not None, None
        if self.optimizer.device.type == "cuda":
            torch.cuda.empty_cache()
        if was_replayed:
            how = "without CUDA graphs"
        elif self.replicas:  # the microbatches, and so their random draws, stay the same
            self.progress.microbatches = self._number_of_microbatches()
            self.progress.in_parallel = False
            self._losses, self.replicas = self._losses[:1], []
            how = "one microbatch at a time"
        else:
            self.progress.microbatches *= 2
            how = f"in {self._number_of_microbatches()} microbatches"
        self.say(
            f"{why} for update {self.progress.update + 1}: batches are computed {how} from here on"
        )

    @property
    def slow_updates(self) -> int:
        """The number of updates with batches of a shape that are slower than the later ones."""
        return 0 if self._replay is None else 2

    def _number_of_microbatches(self) -> int:
        """Return the number of microbatches of a batch, over all threads and processes."""
        return self.progress.microbatches * len(self._losses) * self.world.size


def replica_of(model: Model) -> Model:
    """Return a copy of the model that shares its weights but has its own gradients."""
    sharing = {id(each): nn.Parameter(each.data) for each in model.parameters()}
    return copy.deepcopy(model, sharing)


def _replicated(model: nn.Module) -> DistributedDataParallel:
    """Wrap the model so that its gradients are averaged over all processes."""
    with warnings.catch_warnings():
        # The only buffers are sinusoids, which each process computes itself. The newer name of
        # this argument would still broadcast them once.
        warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
        return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


class _BatchLoss(nn.Module):
    """A loss as a module, because `DistributedDataParallel` needs a module."""

    def __init__(self, model: Model, loss: Callable[[Any], Loss]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Any) -> Loss:
        return self.loss(batch)


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Make the random draws of this thread on `device` depend on `seed` alone, for the block."""
    if device.type == "cpu":
        with drawing_from(torch.Generator().manual_seed(seed)):
            yield
    else:
        torch.manual_seed(seed)
        yield


def draw_seed(seed: int, update: int, microbatch: int) -> int:
    """Return the seed of the dropout of one microbatch of an update.

    The seed depends on the arguments alone, so a resumed run draws the same numbers.
    """
    return int(np.random.SeedSequence([seed, update, microbatch]).generate_state(1, np.uint64)[0])
