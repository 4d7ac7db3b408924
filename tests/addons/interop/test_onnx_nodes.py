"""A graph of a few nodes is a model that ONNX Runtime runs."""

import numpy as np
import onnx
import onnxruntime

from crosshead.addons.interop.onnx_nodes import Nodes


def test_a_graph_of_nodes_runs() -> None:
    graph = Nodes(opset=17)
    table = graph.tensor("table", np.array([[1.0, 2.0], [3.0, 4.0]]).T)
    scaled = graph.add("Mul", [graph.add("MatMul", ["x", table]), graph.number("two", 2.0)])
    graph.add("Unsqueeze", [scaled, graph.whole("axis", [0])], "y")
    real = graph.types.FLOAT
    model = graph.serialized(
        "tiny", {"x": (real, ["n", 2])}, {"y": (real, [1, "n", 2])}, {"made": "here"}
    )
    assert onnx.load_from_string(model).metadata_props[0].value == "here"
    session = onnxruntime.InferenceSession(model)
    [found] = session.run(None, {"x": np.array([[1.0, 1.0]], np.float32)})
    assert found.tolist() == [[[6.0, 14.0]]]


def test_a_constant_is_stored_once() -> None:
    graph = Nodes(opset=17)
    assert graph.number("one", 1.0) == graph.number("one", 1.0) == "one"
    assert len(graph.constants) == 1
