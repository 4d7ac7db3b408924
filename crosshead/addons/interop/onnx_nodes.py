"""A small builder of ONNX graphs: a node at a time, with the library `onnx` and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


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
