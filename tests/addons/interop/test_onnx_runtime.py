"""ONNX Runtime loads the graphs that an export names, and crosshead's search steps them."""

from pathlib import Path

import pytest
import torch

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_runtime import (
    FOLDER,
    LoadedGraphs,
    OnnxModel,
)
from crosshead.text.batching import collate
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle

SOURCES = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14]]


@pytest.mark.parametrize(("kind", "end"), [("float32", ""), ("int8", "_quantized")])
def test_the_graphs_of_a_number_format_are_loaded(kind: str, end: str, tmp_path: Path) -> None:
    bundle = small_bundle()
    ONNX.write(bundle, kind, tmp_path)
    names = {each.name for each in (tmp_path / FOLDER).iterdir()}
    assert names == {f"encoder_model{end}.onnx", f"decoder_model_merged{end}.onnx"}
    LoadedGraphs(bundle, tmp_path).translate(TEXT["source"][:1], ForeignSearch(1, 0.0, 5))


def test_rows_are_chosen_and_do_not_see_padding(tmp_path: Path) -> None:
    bundle = small_bundle()
    ONNX.write(bundle, "float32", tmp_path)
    model = OnnxModel(tmp_path)
    both = model.start(collate([(each, ()) for each in SOURCES], [0, 1]).source)
    _, both = model.step(both, torch.tensor([[1], [1]]))
    swapped, _ = model.step(both.select(torch.tensor([1, 0, 0])), torch.tensor([[9], [7], [7]]))
    for row, (source, token) in enumerate([(1, 9), (0, 7), (0, 7)]):
        alone = model.start(collate([(SOURCES[source], ())], [0]).source)
        _, alone = model.step(alone, torch.tensor([[1]]))
        expected, _ = model.step(alone, torch.tensor([[token]]))
        torch.testing.assert_close(swapped[row], expected[0], atol=2e-5, rtol=0)


def test_the_tokenizer_beside_it_shows_bytes_that_are_no_text(tmp_path: Path) -> None:
    bundle = small_bundle()
    ONNX.write(bundle, "float32", tmp_path)
    tokens = [bundle.source_tokenizer.encode(each)[-1] for each in ("\u0101", "\u0103", "\u0101")]
    [text] = LoadedGraphs(bundle, tmp_path).decode([tokens])
    assert "\ufffd" in text and shown(text) == shown(bundle.target_tokenizer.decode(tokens))
