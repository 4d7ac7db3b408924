"""The graphs take tokens one at a time or all at once, in batches of any size."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_runtime import FOLDER, OnnxModel
from crosshead.bundle.text_bundle import TextBundle
from crosshead.text.batching import collate
from tests.addons.interop.small_bundles import small_bundle

ENCODER, DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"

SOURCES = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14]]


def exported(bundle: TextBundle, directory: Path) -> OnnxModel:
    ONNX.write(bundle, "float32", directory)
    return OnnxModel(directory)


def test_a_token_at_a_time_gives_the_logits_of_all_at_once(tmp_path: Path) -> None:
    bundle = small_bundle()
    model = exported(bundle, tmp_path)
    state = model.start(collate([(each, ()) for each in SOURCES], [0, 1]).source)
    tokens = torch.tensor([[1, 20, 21, 22], [1, 30, 31, 32]])
    whole, _ = model.run(state, tokens)
    for position in range(4):
        one, state = model.run(state, tokens[:, position : position + 1])
        torch.testing.assert_close(one[:, 0], whole[:, position], atol=2e-5, rtol=0)


def test_a_past_that_is_not_used_may_have_any_length(tmp_path: Path) -> None:
    """Optimum gives the first call of a merged decoder a past of one position."""
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
