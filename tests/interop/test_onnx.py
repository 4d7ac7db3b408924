"""ONNX Runtime computes the same as every model that is exported to it, one token at a time too."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import collate
from crosshead.errors import ConfigError
from crosshead.interop import onnx as exporting
from crosshead.interop.base import ForeignSearch
from crosshead.interop.export import export
from crosshead.interop.onnx import DECODER, ENCODER, FOLDER, ONNX, LoadedGraphs, OnnxModel
from crosshead.interop.verify import compare_export
from tests.interop.cells import NAMES, check_cell
from tests.interop.small_bundles import TEXT, small_bundle

SOURCES = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14]]


@pytest.mark.parametrize("name", NAMES)
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(ONNX, name, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        {"norm": "pre", "kv_heads": 2, "score": "dot", "output_bias": True, "start": "pad"},
        {"tie": "none", "activation": "gelu-tanh", "positions": "learned", "norm_eps": 1e-9},
        {"tie": "two-way", "norm": "pre", "positions": "none", "activation": "swish"},
    ],
    ids=["pre", "learned", "none"],
)
def test_options_combine_and_beams_agree(model: dict[str, object], tmp_path: Path) -> None:
    bundle = small_bundle(model, seed=1, beam=4)
    ONNX.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, LoadedGraphs(bundle, tmp_path), TEXT["source"], every_piece=True)
    assert found.largest_difference < 1e-5 and found.identical in (None, 1.0)


def exported(bundle: TextBundle, directory: Path) -> OnnxModel:
    ONNX.write(bundle, "float32", directory)
    return OnnxModel(bundle, directory)


def test_a_token_at_a_time_gives_the_logits_of_all_at_once(tmp_path: Path) -> None:
    bundle = small_bundle()
    model = exported(bundle, tmp_path)
    state = model.start(collate([(each, ()) for each in SOURCES], [0, 1]).source)
    tokens = torch.tensor([[1, 20, 21, 22], [1, 30, 31, 32]])
    whole, _ = model.run(state, tokens)
    for position in range(4):
        one, state = model.run(state, tokens[:, position : position + 1])
        torch.testing.assert_close(one[:, 0], whole[:, position], atol=2e-5, rtol=0)


def test_rows_are_chosen_and_do_not_see_padding(tmp_path: Path) -> None:
    model = exported(small_bundle(), tmp_path)
    both = model.start(collate([(each, ()) for each in SOURCES], [0, 1]).source)
    _, both = model.step(both, torch.tensor([[1], [1]]))
    swapped, _ = model.step(both.select(torch.tensor([1, 0, 0])), torch.tensor([[9], [7], [7]]))
    for row, (source, token) in enumerate([(1, 9), (0, 7), (0, 7)]):
        alone = model.start(collate([(SOURCES[source], ())], [0]).source)
        _, alone = model.step(alone, torch.tensor([[1]]))
        expected, _ = model.step(alone, torch.tensor([[token]]))
        torch.testing.assert_close(swapped[row], expected[0], atol=2e-5, rtol=0)


def test_a_past_that_is_not_used_may_have_any_length(tmp_path: Path) -> None:
    """optimum gives the first call of a merged decoder a past of one position."""
    bundle = small_bundle()
    ONNX.write(bundle, "float32", tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / FOLDER / DECODER)
    random = np.random.default_rng(0)
    feeds = {
        "input_ids": np.array([[1, 20]]),
        "encoder_attention_mask": np.ones((1, 3), np.int64),
        "encoder_hidden_states": random.standard_normal((1, 3, 16), np.float32),
        "use_cache_branch": np.array([False]),
    }
    found = []
    for length in (0, 1, 5):
        past = {
            each.name: random.standard_normal((1, 4, length, 4), np.float32)
            for each in session.get_inputs()
            if each.name.startswith("past_key_values.")
        }
        found.append(session.run(["logits", "present.1.encoder.value"], {**feeds, **past}))
    for each in found[1:]:
        np.testing.assert_array_equal(each[0], found[0][0])
        assert each[1].shape == (1, 4, 3, 4)


def test_the_graphs_are_valid_and_name_what_libraries_feed(tmp_path: Path) -> None:
    ONNX.write(small_bundle(), "float32", tmp_path)
    for name in (ENCODER, DECODER):
        onnx.checker.check_model(tmp_path / FOLDER / name, full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / FOLDER / DECODER)
    names = {each.name for each in session.get_inputs()}
    past = {
        f"past_key_values.{layer}.{side}.{each}"
        for layer in range(3)
        for side in ("decoder", "encoder")
        for each in ("key", "value")
    }
    assert names == past | {
        "input_ids", "encoder_attention_mask", "encoder_hidden_states", "use_cache_branch",
    }  # fmt: skip
    presents = {name.replace("past_key_values", "present") for name in past}
    assert {each.name for each in session.get_outputs()} == presents | {"logits"}


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
    done = export(bundle, "onnx", out, sources=TEXT["source"], references=TEXT["target"])
    assert done.comparison is not None and done.comparison.largest_difference < 1e-5
    names = {each.relative_to(out).as_posix() for each in out.rglob("*") if each.is_file()}
    assert names == {
        "README.md", "config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "verification.json", f"{FOLDER}/{ENCODER}", f"{FOLDER}/{DECODER}",
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
    monkeypatch.setattr("crosshead.interop.onnx_graph._MASKED", 0.0)
    with pytest.raises(ConfigError.__base__, match="the export differs from the model"):
        export(small_bundle(), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_model_too_large_for_one_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "_LARGEST", 1000)
    with pytest.raises(ConfigError, match=r"onnx cannot express a model of [\d,]+ bytes, expected"):
        export(small_bundle(), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())
