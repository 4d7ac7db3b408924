"""A graph of a few nodes is a model that ONNX Runtime runs."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_nodes import Nodes
from crosshead.addons.interop.onnx_runtime import OnnxModel
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.transformer import Transformer
from crosshead.text.batching import collate
from tests.addons.interop.small_bundles import small_bundle


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


KINDS = ("rotary", "alibi")
SOURCES = [list(range(5, 45)), [8, 9, 10, 11, 12, 13, 14]]
"""A long source, and one with padding."""

TOKENS = torch.stack([1 + torch.arange(40), 60 + torch.arange(40)])


def expected(bundle: TextBundle) -> torch.Tensor:
    """Crosshead's logits, "B T V", without those of tokens that are never produced."""
    assert isinstance(bundle.model, Transformer)
    source = collate([(each, ()) for each in SOURCES], [0, 1]).source
    return bundle.model(source, TOKENS)


@pytest.mark.parametrize("positions", KINDS)
def test_the_logits_are_those_of_the_model_with_any_past(positions: str, tmp_path: Path) -> None:
    bundle = small_bundle({"positions": positions, "norm": "pre"}, ends=False)
    ONNX.write(bundle, "float32", tmp_path)
    model, wanted = OnnxModel(tmp_path), expected(bundle)
    allowed = [i for i in range(wanted.shape[-1]) if i not in bundle.forbidden]
    state = model.start(collate([(each, ()) for each in SOURCES], [0, 1]).source)
    whole, _ = model.run(state, TOKENS)
    torch.testing.assert_close(whole[..., allowed], wanted[..., allowed], atol=1e-5, rtol=0)
    done = 0
    for number in (1, 1, 3, 30, 1, 4):  # tokens at a time
        found, state = model.run(state, TOKENS[:, done : done + number])
        part = wanted[:, done : done + number]
        torch.testing.assert_close(found[..., allowed], part[..., allowed], atol=1e-5, rtol=0)
        done += number


def test_biases_reach_far(tmp_path: Path) -> None:
    bundle = small_bundle({"positions": "alibi"}, ends=False)
    ONNX.write(bundle, "float32", tmp_path)
    source = torch.arange(5, 605)[None] % 200 + 5
    target = torch.arange(600)[None] % 200 + 5
    model = OnnxModel(tmp_path)
    found, _ = model.run(model.start(source), target)
    wanted = bundle.model(source, target)
    allowed = [i for i in range(wanted.shape[-1]) if i not in bundle.forbidden]
    torch.testing.assert_close(found[..., allowed], wanted[..., allowed], atol=1e-5, rtol=0)


def test_positions_matter(tmp_path: Path) -> None:
    """The comparison would notice a graph without them."""
    for positions in KINDS:
        bundle = small_bundle({"positions": positions}, ends=False)
        without = small_bundle({"positions": "none"}, ends=False)
        without.model.load_state_dict(bundle.model.state_dict(), strict=False)
        assert (expected(bundle) - expected(without)).abs().max() > 1e-3
