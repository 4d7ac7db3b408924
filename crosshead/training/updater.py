"""One update: the gradients of all parts of a batch, and one optimiser step.

The result of an update is the same, except for rounding, for any number of threads and processes.
Losses are sums, divided by the number of predictions in the whole batch, and dropout draws depend
on (seed, update, part) alone. Without dropout the result is also the same for any number of parts.

On a CPU several parts are computed in parallel, one thread each, on replicas of the model. Most
operations of a sentence model are too small for several cores to share.
"""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
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
from crosshead.training.checkpoint import Progress
from crosshead.training.distributed import World
from crosshead.training.optimizer import Optimizer


@dataclass(frozen=True)
class Outcome:
    """The result of an update."""

    sums: dict[str, float]
    """The sums of the losses by name, over the predictions of the batch."""
    count: int
    """The number of predictions."""
    norm: float | None
    """Norm of the gradients; None if they were not finite and not applied."""

    def row(self, rate: float) -> dict[str, float | None]:
        """Return mean losses, learning rate and gradient norm, by their names in the log."""
        means = {name: value / self.count for name, value in self.sums.items()}
        return {**means, "learning_rate": rate, "gradient_norm": self.norm}


class RowTooLarge(MemoryError):
    """Raised if memory does not suffice even for one row at a time."""


class Microbatch(NamedTuple):
    """A part of a batch."""

    seed: int
    """The seed of its dropout."""
    batch: Any
    weight: int
    """1, or 0 for the stand-in of a process that has no part of its own."""
    share: float
    """The factor from the sum of its losses to its contribution to the mean of the whole batch."""
    is_last: bool
    """True for the last part that this process computes for the batch."""


class Updater:
    """Computes the updates of a run.

    With several processes (`world`), each process computes its share of the parts of a batch. A
    single process computes `parallel` parts at a time, in threads that share PyTorch's threads.
    """

    def __init__(
        self,
        task: Task,
        model: Model,
        optimizer: Optimizer,
        config: TrainConfig,
        progress: Progress,
        say: Callable[[str], None],
        world: World,
        parallel: int = 1,
    ) -> None:
        assert parallel == 1 or world.size == 1, "processes compute one part after the other"
        self.model, self.optimizer, self.config = model.train(), optimizer, config
        self.progress, self.say, self.world = progress, say, world
        further = parallel - 1 if progress.side_by_side else 0
        self._replicas = [replica_of(model) for _ in range(further)]
        self._losses: list[Callable[[Any], Loss]] = [
            partial(task.loss, each, settings=config) for each in (model, *self._replicas)
        ]
        self._pool = ThreadPoolExecutor(parallel, "part")
        self._threads = torch.get_num_threads()
        self._all_but_last: Callable[[], contextlib.AbstractContextManager[object]] = (
            contextlib.nullcontext
        )
        if world.size > 1 and not config.sharded:
            replicated = _replicated(_BatchLoss(model, self._losses[0]))
            self._losses, self._all_but_last = [replicated], replicated.no_sync

    def take(self, epoch: Epoch, rows: np.ndarray, rate: float) -> Outcome:
        """Make the next update from rows of an epoch.

        If memory runs out, the parts of this batch and of all later batches are computed
        sequentially. If it still runs out, each batch is split into twice as many parts.

        Args:
            epoch: The epoch.
            rows: The rows of the batch.
            rate: The learning rate.

        Returns:
            The losses and the norm of the gradients.

        Raises:
            RowTooLarge: If memory does not suffice for a single row.
            RuntimeError: If memory runs out in one of several processes.
        """
        try:
            parts, count = self._parts(epoch, rows)
            if self._replicas:
                losses = self._side_by_side(parts)
            else:
                loss = self._losses[0]
                losses = [self._backward(loss(x.batch), x) for x in self._one_by_one(parts)]
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or self.world.size > 1:
                raise
            if not self._may_take_less(len(rows)):
                raise RowTooLarge from None
        else:
            sums = self._total(losses)
            return Outcome(sums, count, self.optimizer.step(rate, self._replicas))
        self._take_less()  # here, the memory of the failed attempt is free again
        return self.take(epoch, rows, rate)

    def _parts(self, epoch: Epoch, rows: np.ndarray) -> tuple[list[Microbatch], int]:
        """Return this process's parts of the batch, and the number of predictions in the batch.

        Every process gets the same number of parts, because sharding needs that. A process without
        a part of its own gets a stand-in that counts nothing.
        """
        config, update, world = self.config, self.progress.update, self.world
        split = np.array_split(rows, min(len(rows), self._number_of_parts()))
        numbers = range(world.rank, world.rank + len(split), world.size)
        weights = [int(number < len(split)) for number in numbers]
        own = [split[number] if number < len(split) else rows[:1] for number in numbers]
        device = self.optimizer.device
        batches = [epoch.collate(each.tolist()).to(device) for each in own]
        counted = sum(w * batch.count for w, batch in zip(weights, batches, strict=True))
        count = int(world.total(torch.tensor(float(counted), dtype=torch.float64)))
        parts = [
            # PyTorch averages the gradients over the processes; `world.size` makes it a sum.
            Microbatch(
                draw_seed(config.seed, update, number), batch, weight, weight * world.size / count,
                is_last=number == numbers[-1],
            )
            for number, batch, weight in zip(numbers, batches, weights, strict=True)
        ]  # fmt: skip
        return parts, count

    def _one_by_one(self, parts: Iterable[Microbatch]) -> Iterator[Microbatch]:
        """Yield parts; dropout draws from the seed of a part until the next part is asked for."""
        for part in parts:
            synchronised = contextlib.nullcontext() if part.is_last else self._all_but_last()
            with seeded(part.seed, self.optimizer.device), synchronised:
                yield part

    def _backward(self, loss: Loss, part: Microbatch) -> dict[str, Tensor]:
        """Add the gradients of a part's loss; return the loss's sums."""
        self.optimizer.backward(loss.sums["loss"] * part.share)
        return {
            name: part.weight * value.detach().to(torch.float64)
            for name, value in loss.sums.items()
        }

    def _side_by_side(self, parts: Sequence[Microbatch]) -> list[dict[str, Tensor]]:
        """Compute the parts in threads, one for each replica; return the sums of each loss."""
        parallel = len(self._losses)

        def share(number: int) -> list[dict[str, Tensor]]:
            torch.set_num_threads(max(1, self._threads // parallel))  # of this thread
            own, loss = parts[number::parallel], self._losses[number]
            return [self._backward(loss(x.batch), x) for x in self._one_by_one(own)]

        started = [self._pool.submit(share, number) for number in range(parallel)]
        wait(started)  # for all threads, even if one fails, so that none runs on
        torch.set_num_threads(self._threads)  # PyTorch also keeps a number for the whole process
        found = []
        while started:  # `pop`: an error must not keep its own frames, and their tensors, alive
            found += started.pop(0).result()
        return found

    def _total(self, losses: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """Add up the losses of all parts, in all processes."""
        names = sorted(losses[0])
        sums = torch.stack([torch.stack([each[name] for each in losses]).sum() for name in names])
        return dict(zip(names, self.world.total(sums).tolist(), strict=True))

    def _may_take_less(self, rows: int) -> bool:
        """Return whether a batch of this many rows can be computed in less memory."""
        return bool(self._replicas) or self._number_of_parts() < rows

    def _take_less(self) -> None:
        """Compute parallel parts sequentially; if they already are, use twice as many parts."""
        self.optimizer.drop_gradients()
        if self.optimizer.device.type == "cuda":
            torch.cuda.empty_cache()
        if self._replicas:  # the parts, and so their random draws, stay the same
            self.progress.parts, self.progress.side_by_side = self._number_of_parts(), False
            self._losses, self._replicas = self._losses[:1], []
            how = "one part after the other"
        else:
            self.progress.parts *= 2
            how = f"in {self._number_of_parts()} parts"
        self.say(
            f"not enough memory for update {self.progress.update + 1}: batches are computed {how} "
            "from here on"
        )

    def _number_of_parts(self) -> int:
        """Return the number of parts of a batch, over all threads and processes."""
        return self.progress.parts * len(self._losses) * self.world.size


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
    """A loss as a module, because `DistributedDataParallel` needs a module.

    Args:
        model: The model, whose gradients are averaged.
        loss: The loss of a batch under that model.
    """

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


def draw_seed(seed: int, update: int, part: int) -> int:
    """Return the seed of the dropout of one part of an update.

    The seed depends on the arguments alone, so a resumed run draws the same numbers.

    Args:
        seed: The seed of the run.
        update: The number of updates before this update.
        part: The number of the part, over all processes.
    """
    return int(np.random.SeedSequence([seed, update, part]).generate_state(1, np.uint64)[0])
