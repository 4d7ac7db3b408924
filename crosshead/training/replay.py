"""Gradients on a GPU, replayed from CUDA graphs.

An update of a small model is more than a thousand short kernels. Python takes longer to start them
one by one than the GPU takes to compute them. A CUDA graph starts them all at once. It is recorded
for batches of one shape, so batches are padded to shapes that many of them share.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from crosshead.errors import ConfigError
from crosshead.models.base import Model
from crosshead.system.progress import counted
from crosshead.tasks.validation import Loss
from crosshead.text.batching import Batch, RoundedBatch
from crosshead.training.hardware import free_memory

_MOST_GRAPHS = 256
"""The most graphs of a run. Batches of further shapes are computed without a graph."""


def check_replayable(model: Model, device: torch.device, processes: int) -> None:
    """Raise `ConfigError` if the updates of a run cannot be replayed."""
    if device.type != "cuda" or processes > 1 or not model.has_fixed_work:
        raise ConfigError(
            "needs one process on a CUDA GPU and a model whose operations depend on the shapes of "
            f"its inputs alone, such as a Transformer, found {type(model).__name__} on "
            f"{counted(processes, 'process')} of {device.type}; set it to false",
            key="train.cuda_graphs",
        )


class NotRecorded(RuntimeError):
    """Raised if a graph cannot be recorded, whatever the reason."""


class Replay:
    """Adds up the gradients of a model's losses on a GPU, from the graphs of the shapes so far.

    The first batch of a shape is computed as usual, which also lets libraries choose and load their
    kernels. The second one is recorded. Dropout draws the same numbers in all three ways.
    """

    def __init__(self, model: Model, loss: Callable[[Any], Loss]) -> None:
        self._model, self._loss = model, loss
        self._parameters = list(model.parameters())
        self._device = self._parameters[0].device
        # Every graph adds to these tensors. They lie outside of the memory of the graphs.
        self._gradients = [torch.zeros_like(each) for each in self._parameters]
        self._seen: set[tuple[torch.Size, ...]] = set()
        self._graphs: dict[tuple[torch.Size, ...], _Graph] = {}
        self._memory = torch.cuda.graph_pool_handle()

    def add_gradients(self, batch: Batch, scale: float) -> dict[str, Tensor]:
        """Add the gradients of a batch's loss times `scale`, and return the sums of the loss."""
        if self._parameters[0].grad is None:
            torch._foreach_zero_(self._gradients)
            for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
                parameter.grad = gradient
        rounded = batch.rounded()
        graph = self._graphs.get(rounded.shape)
        if graph is None and rounded.shape in self._seen and self._may_record():
            own = rounded.to(self._device)
            graph = self._graphs[rounded.shape] = _Graph(own, self._compute, self._memory)
            # A module may replace a table by a longer one; the graph still reads the old one.
            graph.read = _tensors_of(self._model)
        if graph is not None:
            return graph.replay(rounded, scale)
        self._seen.add(rounded.shape)
        return self._compute(rounded.to(self._device), torch.tensor(scale, device=self._device))

    def _compute(self, batch: RoundedBatch, scale: Tensor) -> dict[str, Tensor]:
        """Add the gradients of a batch on the GPU, and return the sums of its loss."""
        sums = self._loss(batch).sums
        (sums["loss"] * scale).backward()
        return {name: value.detach().double() for name, value in sums.items()}

    def _may_record(self) -> bool:
        """Return whether another graph has room: at most as much as the updates took so far."""
        free = free_memory(self._device, 1)
        most = torch.cuda.max_memory_allocated(self._device)
        return len(self._graphs) < _MOST_GRAPHS and (free is None or free.left > most)


class _Graph:
    """The recorded computation of batches of one shape."""

    def __init__(
        self,
        batch: RoundedBatch,
        compute: Callable[[RoundedBatch, Tensor], dict[str, Tensor]],
        memory: Any,
    ) -> None:
        self._batch, self._scale = batch, torch.zeros((), device=batch.target_output.device)
        self._graph = torch.cuda.CUDAGraph()
        self.read: list[Tensor] = []
        """Tensors that the graph reads and that others might free."""
        stream = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(self._graph, pool=memory):
                self._sums = compute(self._batch, self._scale)
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # PyTorch leaves its own stream if it cannot end a graph
            raise NotRecorded(str(error).splitlines()[0]) from error

    def replay(self, batch: RoundedBatch, scale: float) -> dict[str, Tensor]:
        """Compute a batch of the same shape."""
        for own, given in zip(self._batch.tensors, batch.tensors, strict=True):
            own.copy_(given)
        self._scale.fill_(scale)
        self._graph.replay()
        return {name: value.clone() for name, value in self._sums.items()}


def _tensors_of(model: Model) -> list[Tensor]:
    """Return the tensors of all modules that are neither parameters nor buffers."""
    return [
        value
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor)
    ]
