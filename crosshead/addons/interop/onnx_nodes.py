"""A small builder of ONNX graphs, a node at a time, and positions that act in attention as nodes.

Axes: `B` batch, `H` heads, `T` query positions, `K` key positions, `E` width of a head.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from crosshead.addons.interop.ctranslate2_layers import numbers
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.positions import Rotary
from crosshead.attention.relative import ALiBi, Biased


class Nodes:
    """An ONNX graph that grows by a node at a time; values are names."""

    def __init__(self, opset: int) -> None:
        from onnx import TensorProto, helper

        self.helper: Any = helper
        self.types: Any = TensorProto
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, op: str, inputs: Sequence[str], out: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        out = out or f"{op.lower()}_{len(self.nodes)}"
        # ONNX Runtime names the nodes that it adds after these; some versions need the names.
        self.nodes.append(self.helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def whole(self, name: str, values: list[int]) -> str:
        """Return a constant of whole numbers."""
        return self._constant(name, self.types.INT64, [len(values)], values)

    def number(self, name: str, value: float) -> str:
        """Return a constant number."""
        return self._constant(name, self.types.FLOAT, [], [value])

    def tensor(self, name: str, values: np.ndarray) -> str:
        """Return a constant of numbers in float32 of any shape."""
        data = np.ascontiguousarray(values, np.float32)
        return self._constant(name, self.types.FLOAT, data.shape, data.tobytes(), raw=True)

    def serialized(
        self,
        title: str,
        inputs: Mapping[str, tuple[Any, Sequence[int | str]]],
        outputs: Mapping[str, tuple[Any, Sequence[int | str]]],
        metadata: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the graph as a serialised model."""
        values = [
            [self.helper.make_tensor_value_info(name, *each) for name, each in side.items()]
            for side in (inputs, outputs)
        ]
        model = self.helper.make_model(
            self.helper.make_graph(self.nodes, title, *values, list(self.constants.values())),
            opset_imports=[self.helper.make_opsetid("", self.opset)],
            ir_version=9,
            producer_name="crosshead",
        )
        if metadata:
            self.helper.set_model_props(model, dict(metadata))
        found: bytes = model.SerializeToString()
        return found

    def _constant(
        self, name: str, kind: Any, shape: Sequence[int], values: Any, raw: bool = False
    ) -> str:
        if name not in self.constants:
            self.constants[name] = self.helper.make_tensor(name, kind, shape, values, raw=raw)
        return name


class Span:
    """The positions of queries and keys: queries from a start to an end, keys from 0 to the end."""

    def __init__(self, graph: Nodes, start: str, end: str) -> None:
        self._graph, self._start, self._end = graph, start, end
        first, last = (graph.add("Squeeze", [each]) for each in (start, end))
        zero, one = (graph.add("Squeeze", [graph.whole(f"scalar_{n}", [n])]) for n in (0, 1))
        keys = graph.add("Range", [zero, last, one])
        queries = graph.add("Range", [first, last, one])
        column = graph.add("Unsqueeze", [queries, graph.whole("second_axis", [1])])
        self.distances = graph.add("Sub", [column, keys])
        """The distance by which each query comes after each key, "T K"."""

    def rows(self, table: str) -> str:
        """Return the rows of a table at the positions of the queries, "T ..."."""
        axis = self._graph.whole("first_axis", [0])
        return self._graph.add("Slice", [table, self._start, self._end, axis])


class Positions(NamedTuple):
    """Steps of an attention at which positions act; by default they do not."""

    rotated: Callable[[str], str] = lambda x: x
    """Rotates new queries or keys, "B H T E", by their positions."""
    scored: Callable[[str], str] = lambda scores: scores
    """Adds the biases of the distances to scores, "B H T K"."""


def _rotary(graph: Nodes, span: Span, rotary: Rotary, length: int) -> Positions:
    """Return positions that rotate queries and keys, pair by pair: x cos + swapped(x) sin."""
    sines, cosines = np.split(numbers(rotary.sinusoids(0, length)), 2, axis=1)
    # The first half of a vector turns by the negative sine of its second half.
    tables = {
        "rotary_cosine": np.concatenate([cosines, cosines], axis=1),
        "rotary_sine": np.concatenate([-sines, sines], axis=1),
    }
    cosine, sine = (span.rows(graph.tensor(name, table)) for name, table in tables.items())
    half = sines.shape[1]

    def rotated(x: str) -> str:
        bounds = [graph.whole(f"width_{each}", [each]) for each in (0, half, 2 * half)]
        axis = graph.whole("last_axis", [-1])
        halves = [graph.add("Slice", [x, *bounds[n : n + 2], axis]) for n in (1, 0)]
        swapped = graph.add("Concat", halves, axis=-1)
        return graph.add("Add", [graph.add("Mul", [x, cosine]), graph.add("Mul", [swapped, sine])])

    return Positions(rotated=rotated)


def positions_of(attention: MultiHeadAttention, graph: Nodes, span: Span, length: int) -> Positions:
    """Return the positions of a stack, which act alike in each self-attention."""
    rotary, score = attention.rotate, attention.score
    if isinstance(rotary, Rotary):
        return _rotary(graph, span, rotary, length)
    if isinstance(score, Biased):
        assert isinstance(score.bias, ALiBi)
        biases = _linear_biases(graph, span, score.bias)
        return Positions(scored=lambda scores: graph.add("Add", [scores, biases]))
    return Positions()


def _linear_biases(graph: Nodes, span: Span, bias: ALiBi) -> str:
    """Return the biases of ALiBi, "H T K", for distances of any size."""
    slopes = graph.tensor("slopes", numbers(bias(torch.tensor([1])))[..., None])
    real = graph.add("Cast", [span.distances], to=graph.types.FLOAT)
    return graph.add("Mul", [graph.add("Abs", [real]), slopes])
