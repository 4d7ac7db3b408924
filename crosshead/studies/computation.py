"""Measurements on a computation's graph: sequential steps, reach of gradients, memory kept."""

import math
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node


def products_in_sequence(output: Tensor, start: Tensor | None = None) -> int:
    """The longest chain of matrix products in the graph that an output was computed by.

    Along autograd's graph, whose nodes are the operations of the way there: from anywhere, or from
    the leaf `start`. Raises `ValueError` where no way leads there.
    """
    assert output.grad_fn is not None
    longest: dict[Node, float] = {}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        waiting = [each for each in before if each not in longest]
        if waiting:
            stack.extend(waiting)
        else:
            is_product = any(word in node.name() for word in ("Addmm", "MmBack", "BmmBack"))
            begins = start is None or getattr(node, "variable", None) is start
            nothing = 0 if begins else -math.inf
            longest[node] = is_product + max((longest[each] for each in before), default=nothing)
            stack.pop()
    found = longest[output.grad_fn]
    if found == -math.inf:
        raise ValueError("the output does not depend on the tensor")
    return int(found)


def layers_until_reached(outputs: Iterator[Tensor], x: Tensor) -> int:
    """After how many layers the last position depends on the first of `x`, `1 T D`.

    `outputs` are those after one layer, two, and so on; before, the gradient is exactly zero.
    """
    for layers, y in enumerate(islice(outputs, x.shape[1]), 1):
        [gradient] = torch.autograd.grad(y[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].any():
            return layers
    raise AssertionError("a path cannot be longer than the sequence")


class Costs(NamedTuple):
    """The costs of a layer's forward and backward pass."""

    seconds: float
    kept: int
    """Bytes that it keeps for the way back, weights left out."""


def costs(layer: nn.Module, x: Tensor, rounds: int) -> Costs:
    """The least time of some rounds, and what is kept, each piece of memory once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(x)  # what it keeps is alive until here, so that no place is used twice
    for weight in layer.parameters():
        kept.pop(weight.untyped_storage().data_ptr(), None)
    output.sum().backward()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        layer(x).sum().backward()
        seconds.append(time.perf_counter() - began)
    return Costs(min(seconds), sum(kept.values()))
