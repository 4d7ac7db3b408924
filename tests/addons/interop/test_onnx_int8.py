"""Graphs in eight bits are smaller, nearly the same, and the same on every run."""

import logging
from pathlib import Path

import onnx
import pytest

from crosshead.addons.interop import export as exporting
from crosshead.addons.interop.export import export
from crosshead.addons.interop.formats import FORMATS
from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_runtime import FOLDER
from crosshead.addons.interop.verify import ExportError
from crosshead.errors import UserError
from tests.addons.interop.small_bundles import TEXT, small_bundle

WIDE = {"d_model": 64, "d_ff": 128, "encoder_layers": 1, "decoder_layers": 1}


def test_an_export_in_eight_bits_is_verified_and_small(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bundle, out = small_bundle(WIDE), tmp_path / "out"
    done = export(bundle, "onnx", out, kind="int8", sources=TEXT["source"])
    assert done.comparison is not None and 1e-5 < done.comparison.largest_difference < 0.1
    names = {each.name for each in (out / FOLDER).iterdir()}
    assert names == {"encoder_model_quantized.onnx", "decoder_model_merged_quantized.onnx"}
    assert '"dtype": "q8"' in (out / "config.json").read_text()
    for name in names:
        graph = onnx.load(out / FOLDER / name).graph
        matrices = [each for each in graph.initializer if len(each.dims) == 2]
        real = {each.name for each in matrices if each.data_type != onnx.TensorProto.UINT8}
        assert real == {"positions"} and len(matrices) > 6
        scales = [each for each in graph.initializer if each.name.endswith("fc1.weight.T_scale")]
        assert [list(each.dims) for each in scales] == [[128]]  # one for each output
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    bundle = small_bundle(WIDE)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ONNX.write(bundle, "int8", tmp_path / name)
    for file in (tmp_path / "first").rglob("*.*"):
        same = tmp_path / "second" / file.relative_to(tmp_path / "first")
        assert file.read_bytes() == same.read_bytes()


def test_an_export_that_differs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.addons.interop.onnx_graph._MASKED", 0.0)
    with pytest.raises(ExportError, match="onnx int8: the export differs from the model"):
        export(small_bundle(WIDE), "onnx", tmp_path / "out", kind="int8")
    assert not list(tmp_path.iterdir())


def test_eight_bits_need_the_library_even_without_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = exporting.importlib.util.find_spec
    monkeypatch.setattr(
        exporting.importlib.util,
        "find_spec",
        lambda name: None if name == "onnxruntime" else real(name),
    )
    exporting.check_libraries(FORMATS["onnx"], "float32", verify=False)
    with pytest.raises(UserError) as missing:
        export(small_bundle(WIDE), "onnx", tmp_path / "out", kind="int8", verify=False)
    assert str(missing.value) == ("onnx needs onnxruntime: pip install 'crosshead[export]'")
