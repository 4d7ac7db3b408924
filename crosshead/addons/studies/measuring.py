"""Measurements of a computation: time in turns, products in sequence, reach, memory, powers.

Times are measured round after round, so that all computations see the same machine.
"""

import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.utils.flop_counter import FlopCounterMode

from crosshead.addons.studies.study import Trial

K = TypeVar("K", bound=Hashable)

FORWARD, TRAINING = "forwards", "forwards and backwards"


def in_turns(
    trial: Trial, calls: Mapping[K, Callable[[], object]], rounds: int = 5, seconds: float = 0.3
) -> dict[K, list[float]]:
    """Measure the mean seconds of a call of each computation, in every round.

    Each is called once before, so that kernels are chosen and memory is taken. Every second round
    goes through the computations in reverse order. Rounds and their seconds are those of the full
    form.
    """
    found: dict[K, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for each in range(trial.amount(2, rounds)):
        for name in list(calls)[:: -1 if each % 2 else 1]:
            found[name].append(_mean_seconds(calls[name], 0.0 if trial.quick else seconds))
    return found


def _mean_seconds(call: Callable[[], object], least: float) -> float:
    _wait()
    began, count = time.perf_counter(), 0
    while not count or time.perf_counter() - began < least:
        call()
        count += 1
        _wait()
    return (time.perf_counter() - began) / count


def _wait() -> None:
    """Wait for a GPU, which computes asynchronously."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Return the ratio of two times in every round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def milliseconds(times: Sequence[float]) -> float:
    """Return the least time of all rounds."""
    return 1000 * min(times)


def compute(model: nn.Module, output: Callable[[], Tensor], direction: str) -> None:
    """Compute an output of a model, and all gradients of its sum if the direction says so."""
    if direction == FORWARD:
        with torch.no_grad():
            output()
        return
    model.zero_grad()
    output().sum().backward()


def of_layer(layer: nn.Module, x: Tensor, direction: str) -> Callable[[], None]:
    """Return the computation of a layer on `x`, whose gradient is computed as well."""
    # A new leaf each time: gradients of the input do not add up from call to call.
    return partial(compute, layer, lambda: layer(x.detach().requires_grad_()), direction)


def operations(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, dict[str, int]]:
    """Return the operations that PyTorch's counter sees: all, and those of each module."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function(x)
    by_module = {name: sum(each.values()) for name, each in counter.get_flop_counts().items()}
    return counter.get_total_flops(), by_module


def products_in_sequence(output: Tensor) -> int:
    """Return the longest chain of matrix products in the autograd graph of an output."""
    assert output.grad_fn is not None
    longest: dict[Node, int] = {}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        waiting = [each for each in before if each not in longest]
        if waiting:
            stack.extend(waiting)
        else:
            is_product = any(word in node.name() for word in ("Addmm", "MmBack", "BmmBack"))
            longest[node] = is_product + max((longest[each] for each in before), default=0)
            stack.pop()
    return longest[output.grad_fn]


def layers_until_reached(outputs: Iterator[Tensor], x: Tensor) -> int:
    """Return the number of layers after which the last position depends on the first.

    With fewer layers the gradient is exactly zero.
    """
    for layers, y in enumerate(islice(outputs, x.shape[1]), 1):
        [gradient] = torch.autograd.grad(y[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].any():
            return layers
    raise AssertionError("a path cannot be longer than the sequence")


def bytes_kept(layer: nn.Module, x: Tensor) -> int:
    """Return the bytes that a layer keeps for the backward pass, without its weights."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(x)  # keeps all kept memory alive, so that no address is used twice
    for weight in layer.parameters():
        kept.pop(weight.untyped_storage().data_ptr(), None)
    output.sum().backward()
    return sum(kept.values())


class Power(NamedTuple):
    """A power by which a quantity grows, and its standard error; NaN if there is none."""

    value: float
    error: float

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        return f"{self.value:.2f}{error}"


def powers(sizes: Sequence[Sequence[float]], values: Sequence[float]) -> list[Power]:
    """Return the powers p of `value = c size_1^p_1 size_2^p_2 ...`, one for each column of `sizes`.

    They are fitted by least squares on the logarithms. The errors measure the distance from a power
    law, not the distance to another machine.
    """
    columns, logs = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    design = np.column_stack([np.ones(len(columns)), columns])
    inverse = np.linalg.pinv(design)
    found = inverse @ logs
    free = len(logs) - design.shape[1]
    variance = np.square(logs - design @ found).sum() / free if free > 0 else math.nan
    errors = np.sqrt(variance * np.diag(inverse @ inverse.T))
    return [Power(float(p), float(e)) for p, e in zip(found[1:], errors[1:], strict=True)]


def in_standard_errors(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the difference of two means over its standard error (Welch).

    Equal means give 0, and different means without any spread an infinity.
    """
    difference = statistics.mean(first) - statistics.mean(second)
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (first, second)))
    if error == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / error
