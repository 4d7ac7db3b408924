"""One update: a batch in parts, the gradients of all of them, and the step that these make.

An update is the same, but for rounding, by however many threads and processes the parts of its
batch are computed: losses are sums, divided by the predictions of the whole batch, and what dropout
draws is a function of (seed, update, part). Without dropout it is the same in however many parts.

On a CPU several parts are computed side by side, a thread each, on replicas of the model: most
steps of a model for sentences are too small to be shared among cores themselves.
"""

import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from crosshead.attention.dropout import drawing_from
from crosshead.data.batching import Epoch
from crosshead.errors import is_out_of_memory
from crosshead.models.base import Model
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.base import Task
from crosshead.tasks.validation import Loss
from crosshead.training.checkpoint import Progress
from crosshead.training.distributed import World
from crosshead.training.optimizer import Optimizer


@dataclass(frozen=True)
class Outcome:
    """The result of an update."""

    sums: dict[str, float]
    """The sums of its loss by name, over the predictions of its batch."""
    count: int
    """The number of predictions."""
    norm: float | None
    """Norm of the gradients; None if they were not finite and not applied."""


class RowTooLarge(MemoryError):
    """Memory does not suffice for a batch whose rows are computed one at a time."""


class Microbatch(NamedTuple):
    """A part of a batch: which of all it is, and how much it counts (not at all where empty)."""

    number: int
    batch: Any
    weight: int


class Updater:
    """Makes the updates of a run, one after the other.

    Of several processes (`world`) each computes its share of the parts of a batch. A process of its
    own computes `parallel` parts at a time, in threads that share those of PyTorch.
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
        self.model, self.optimizer, self.config = model.train(), optimizer, config
        self.progress, self.say, self.world = progress, say, world
        others = parallel - 1 if progress.side_by_side else 0
        self._replicas = [replica_of(model) for _ in range(others)]
        self._models: list[nn.Module] = [
            _BatchLoss(task, m, config) for m in (model, *self._replicas)
        ]
        self._pool = ThreadPoolExecutor(parallel, "part")
        self._threads = torch.get_num_threads()
        self._all_but_last: Callable[[], contextlib.AbstractContextManager[object]] = (
            contextlib.nullcontext
        )
        assert parallel == 1 or world.size == 1, "processes compute one part after the other"
        if world.size > 1 and not config.sharded:
            replica = _replicated(self._models[0])
            self._models, self._all_but_last = [replica], replica.no_sync

    def take(self, epoch: Epoch, rows: np.ndarray, rate: float) -> Outcome:
        """Make the next update out of some rows of an epoch, at the learning rate `rate`.

        Where memory does not suffice, the parts of this batch and of all that follow are computed
        one after the other, and where it still does not, in twice as many parts. Raises
        `RowTooLarge` where every part is a single row, and in one of several processes what
        PyTorch raises.
        """
        try:
            found = self._differentiate(epoch, rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error) or self.world.size > 1:
                raise
            if not self._may_take_less(len(rows)):
                raise RowTooLarge from None
        else:
            return dataclasses.replace(found, norm=self.optimizer.step(rate, self._replicas))
        self._take_less()  # here, where what the failed attempt held is free again
        return self.take(epoch, rows, rate)

    def _differentiate(self, epoch: Epoch, rows: np.ndarray) -> Outcome:
        """Add up the gradients of a batch; its sums, for the norm is not yet known."""
        parts = self._parts(epoch, rows)
        own = sum(part.weight * part.batch.count for part in parts)
        count = int(self.world.total(torch.tensor(float(own), dtype=torch.float64)))
        found = self._side_by_side(parts, count)
        names = sorted(found[0])
        sums = torch.stack([torch.stack([each[name] for each in found]).sum() for name in names])
        values = self.world.total(sums).tolist()
        return Outcome(dict(zip(names, values, strict=True)), count, None)

    def _side_by_side(self, parts: Sequence[Microbatch], count: int) -> list[dict[str, Tensor]]:
        """The sums of the loss of each model's share of the parts."""
        parallel = len(self._models)
        if parallel == 1:
            return [self._add_up(self._models[0], parts, count)]

        def share(number: int) -> dict[str, Tensor]:
            torch.set_num_threads(max(1, self._threads // parallel))  # of this thread
            return self._add_up(self._models[number], parts[number::parallel], count)

        started = [self._pool.submit(share, number) for number in range(parallel)]
        wait(started)  # for all, if one fails too: nobody computes on behind the caller's back
        torch.set_num_threads(self._threads)  # PyTorch has also numbers for the whole process
        sums = []
        while started:  # what is raised here must not hold itself, and so all tensors of its frames
            sums.append(started.pop(0).result())
        return [each for each in sums if each]

    def _add_up(
        self, model: nn.Module, parts: Sequence[Microbatch], count: int
    ) -> dict[str, Tensor]:
        """Add the gradients of some parts to those of `model`; return the sums of their loss."""
        sums: dict[str, Tensor] = {}
        for part in parts:
            seed = draw_seed(self.config.seed, self.progress.update, part.number)
            last = part is parts[-1]
            with (
                seeded(seed, self.optimizer.device),
                contextlib.nullcontext() if last else self._all_but_last(),
            ):
                found = model(part.batch)
                # The mean over the processes is taken of their gradients.
                share = part.weight * self.world.size / count
                self.optimizer.backward(found.sums["loss"] * share)
            for name, value in found.sums.items():
                value = part.weight * value.detach().to(torch.float64)
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def _parts(self, epoch: Epoch, rows: np.ndarray) -> list[Microbatch]:
        """The parts of the batch for this process: as many as any other has, which sharding needs.

        One counts nothing where there is none for it.
        """
        split = np.array_split(rows, min(len(rows), self._number_of_parts()))
        parts = []
        for before in range(0, len(split), self.world.size):
            number = before + self.world.rank
            weight = int(number < len(split))
            some = split[number] if weight else rows[:1]
            batch = epoch.collate(some.tolist()).to(self.optimizer.device)
            parts.append(Microbatch(number, batch, weight))
        return parts

    def _may_take_less(self, rows: int) -> bool:
        """Return whether a batch of this many rows can be computed in less memory."""
        return bool(self._replicas) or self._number_of_parts() < rows

    def _take_less(self) -> None:
        """Compute one after the other the parts that were side by side, or else twice as many."""
        self.optimizer.drop_gradients()
        if self.optimizer.device.type == "cuda":
            torch.cuda.empty_cache()
        if self._replicas:  # the parts stay what they are, and so what is drawn for them
            self.progress.parts, self.progress.side_by_side = self._number_of_parts(), False
            self._models, self._replicas = self._models[:1], []
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
        return self.progress.parts * len(self._models) * self.world.size


def replica_of(model: Model) -> Model:
    """A copy of the model with the same weights, in one memory, and gradients of its own."""
    sharing = {id(each): nn.Parameter(each.data) for each in model.parameters()}
    return copy.deepcopy(model, sharing)


def _replicated(model: nn.Module) -> DistributedDataParallel:
    """The model, whose gradients are averaged over all processes."""
    with warnings.catch_warnings():
        # The only buffers are sinusoids, which each process computes as far as it needs them; the
        # newer name of this argument would send them once.
        warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
        return DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


class _BatchLoss(nn.Module):
    """The loss of a task as a module, which is what PyTorch replicates."""

    def __init__(self, task: Task, model: Model, config: TrainConfig) -> None:
        super().__init__()
        self.task, self.model, self.config = task, model, config

    def forward(self, batch: Any) -> Loss:
        return self.task.loss(self.model, batch, self.config)


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """A block in which what this thread draws on `device` depends on `seed` alone."""
    if device.type == "cpu":
        with drawing_from(torch.Generator().manual_seed(seed)):
            yield
    else:
        torch.manual_seed(seed)
        yield


def draw_seed(seed: int, update: int, part: int) -> int:
    """The seed of what a part of an update draws (dropout).

    A function of where it stands: a run that goes on draws what it would have drawn.
    """
    return int(np.random.SeedSequence([seed, update, part]).generate_state(1, np.uint64)[0])
