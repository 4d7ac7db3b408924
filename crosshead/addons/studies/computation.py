"""Measurements of a computation: products in sequence, reach, memory kept, powers of growth."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import Node


def products_in_sequence(output: Tensor, start: Tensor | None = None) -> int:
    """Return the longest chain of matrix products in the autograd graph of an output."""
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
