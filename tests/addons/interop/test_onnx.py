"""ONNX Runtime computes the same as every model that is exported to it."""

import json
import logging
from pathlib import Path

import onnx
import pytest
import transformers

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.export import export
from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_runtime import FOLDER, LoadedGraphs
from crosshead.addons.interop.verify import ExportError, compare_export
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, small_bundle

ENCODER, DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"


@pytest.mark.parametrize("name", cells_of(ONNX))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(ONNX, name, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        {"norm": "pre", "kv_heads": 2, "output_bias": True, "start": "pad"},
        {"tie": "none", "activation": "gelu-tanh", "positions": "learned", "norm_eps": 1e-9},
        {"tie": "two-way", "norm": "pre", "positions": "none", "activation": "swish"},
    ],
    ids=["pre", "learned", "none"],
)
def test_options_combine_and_beams_agree(model: dict[str, object], tmp_path: Path) -> None:
    bundle = small_bundle(model, seed=1, beam=4)
    ONNX.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, LoadedGraphs(bundle, tmp_path), TEXT["source"], every_piece=True)
    assert found.largest_difference < 1e-5 and not found.different and not found.misread


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ONNX.write(small_bundle(), "float32", tmp_path / name)
    for file in (tmp_path / "first").rglob("*.*"):
        same = tmp_path / "second" / file.relative_to(tmp_path / "first")
        assert file.read_bytes() == same.read_bytes()


def test_a_verified_export_has_the_files_that_libraries_load(tmp_path: Path) -> None:
    bundle = small_bundle({"norm": "pre"}, beam=2)
    out = tmp_path / "out"
    done = export(bundle, "onnx", out, sources=TEXT["source"])
    assert done.comparison is not None and done.comparison.largest_difference < 1e-5
    names = {each.relative_to(out).as_posix() for each in out.rglob("*") if each.is_file()}
    assert names == {
        "README.md", "config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "translate.html", "verification.json",
        f"{FOLDER}/{ENCODER}", f"{FOLDER}/{DECODER}",
    }  # fmt: skip
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "marian"
    assert config["transformers.js_config"] == {"dtype": "fp32"}


def test_the_search_settings_are_the_defaults_of_generate(tmp_path: Path) -> None:
    bundle = small_bundle()
    ONNX.write_search(bundle, ForeignSearch(3, 0.5, 20), tmp_path)
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["length_penalty"]) == (3, 0.5)
    assert settings["max_length"] == 21 and settings["decoder_start_token_id"] == 1


def test_an_export_that_differs_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.addons.interop.onnx_graph._MASKED", 0.0)
    with pytest.raises(ExportError, match="the export differs from the model"):
        export(small_bundle(), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_transformers_loads_the_tokenizer(tmp_path: Path) -> None:
    bundle = small_bundle()
    ONNX.write(bundle, "float32", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for line in TEXT["source"][:3]:
        ids = bundle.source_tokenizer.encode(line)
        assert tokenizer(line)["input_ids"] == [*ids, 2]
        assert tokenizer.decode([*ids, 2], skip_special_tokens=True) == line
    assert tokenizer.pad_token_id == 0


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


def test_the_same_model_gives_the_same_bytes_onnx_int8(tmp_path: Path) -> None:
    bundle = small_bundle(WIDE)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        ONNX.write(bundle, "int8", tmp_path / name)
    for file in (tmp_path / "first").rglob("*.*"):
        same = tmp_path / "second" / file.relative_to(tmp_path / "first")
        assert file.read_bytes() == same.read_bytes()


def test_an_export_that_differs_leaves_nothing_onnx_int8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.addons.interop.onnx_graph._MASKED", 0.0)
    with pytest.raises(ExportError, match="onnx int8: the export differs from the model"):
        export(small_bundle(WIDE), "onnx", tmp_path / "out", kind="int8")
    assert not list(tmp_path.iterdir())
