"""Imports of CTranslate2's Transformers are the models that were exported."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosshead.interop.ctranslate2 import CTRANSLATE2
from crosshead.interop.imports.ctranslate2 import read, recognises
from crosshead.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.interop.verify import own_log_probs
from tests.interop.imports.ctranslate2_variables import variables, write_variables
from tests.interop.imports.wrong_values import WRONG
from tests.interop.small_bundles import small_bundle

EXAMPLES = [([9, 30, 11], [8, 7, 60, 5]), ([15], [40]), ([30, 31, 32, 33, 34], [])]


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"norm": "pre", "positions": "sinusoidal-halves", "activation": "swish", "tie": "none"},
        {"positions": "sinusoidal-marian", "start": "pad", "tie": "two-way", "norm_eps": 1e-9},
        {"positions": "none", "output_bias": True, "activation": "gelu-tanh"},
    ],
)
def test_an_export_comes_back(model: dict[str, object], tmp_path: Path) -> None:
    bundle = small_bundle(model, seed=2)
    CTRANSLATE2.write(bundle, "float32", tmp_path)
    again = read(tmp_path, "x").bundle
    for key in ("norm", "positions", "activation", "tie", "start", "norm_eps", "heads", "d_ff"):
        assert getattr(again.config.model, key) == getattr(bundle.config.model, key), key
    assert again.source_tokenizer.encode("a dog") == bundle.source_tokenizer.encode("a dog")
    # The export rules out what search never produces, so only the rest is compared.
    for left, right in zip(
        own_log_probs(bundle, EXAMPLES), own_log_probs(again, EXAMPLES), strict=True
    ):
        torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ct2")
    CTRANSLATE2.write(small_bundle(), "float32", directory)
    return directory


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"add_source_eos": False}, "add_source_eos is False"),
        ({"decoder_start_token": "</s>"}, "decoder_start_token is the end token"),
        ({"eos_token": "?"}, "has no end token"),
    ],
)
def test_a_setting_that_cannot_be_expressed_is_refused_by_name(
    exported: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    settings = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ForeignModelError, match=message):
        read(copied, "x")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"positions": "learned"}, "other positions than sinusoids"),
        ({"positions": "shaw"}, "relative_position_keys"),
        ({"score": "dot"}, "queries_scale is 1"),
    ],
)
def test_a_model_that_cannot_be_expressed_is_refused(
    tmp_path: Path, model: dict[str, object], message: str
) -> None:
    CTRANSLATE2.write(small_bundle(model, ends=False), "float32", tmp_path)
    with pytest.raises(ForeignModelError, match=message):
        read(tmp_path, "x")


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    CTRANSLATE2.write(small_bundle(ends=False), "int8", tmp_path)
    with pytest.raises(ForeignModelError, match="weight_scale' has no counterpart"):
        read(tmp_path, "x")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder/num_heads", np.array(0, np.int16), "num_heads of encoder and decoder are"),
        ("num_heads", np.array(0, np.int16), "heads: expected"),
        ("num_heads", np.zeros(0, np.int16), "num_heads' is no single number"),
        ("num_heads", np.array(np.nan, np.float32), "num_heads' is no single number"),
        ("num_heads", np.zeros((2, 2), np.int16), "num_heads' is no single number"),
        ("num_heads", None, "num_heads of encoder and decoder are"),
        ("position_encodings/encodings", np.zeros(3, np.float32), "is no table"),
        ("layer_0/self_attention/linear_0/weight", np.zeros((5, 16), np.float32), "3 equal parts"),
        ("layer_0/self_attention/linear_0/bias", np.zeros((), np.float32), "has shape"),
        ("layer_0/ffn/linear_0/weight", np.zeros((2, 2, 2), np.float32), "has shape"),
        ("encoder/layer_0/ffn/linear_0/weight", None, "linear_0/weight is missing"),
        ("decoder/projection/weight", np.zeros((), np.float32), "projection/weight' has shape"),
        ("decoder/projection/weight", np.zeros((0, 16), np.float32), "projection/weight' has"),
        ("decoder/projection/bias", np.zeros((2, 2), np.float32), "has shape"),
        ("queries_scale", np.array(np.nan, np.float32), "queries_scale is nan"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    exported: Path, tmp_path: Path, name: str, value: np.ndarray[Any, Any] | None, message: str
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    found = variables(copied)
    for each in [each for each in found if each == name or each.endswith(f"coder/{name}")]:
        found[each] = found[each] if value is None else value
        if value is None:
            del found[each]
    if name == "queries_scale":
        found["encoder/layer_0/self_attention/queries_scale"] = np.array(np.nan, np.float32)
    write_variables(copied, found)
    with pytest.raises(ForeignModelError, match=message):
        read(copied, "x")


@pytest.mark.slow
def test_every_wrong_setting_is_refused_in_a_line_or_harmless(
    exported: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    settings = json.loads((copied / "config.json").read_text())
    for key in settings:
        for value in WRONG:
            (copied / "config.json").write_text(json.dumps({**settings, key: value}))
            with contextlib.suppress(ForeignModelError):
                read(copied, "x")


@pytest.mark.parametrize("size", [3, 20, 500, -10])
def test_a_truncated_or_foreign_file_is_refused(exported: Path, tmp_path: Path, size: int) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    data = (copied / "model.bin").read_bytes()
    (copied / "model.bin").write_bytes(data[:size])
    with pytest.raises(ForeignModelError, match="truncated or damaged"):
        read(copied, "x")
    (copied / "model.bin").write_bytes(b"\x05" + data[1:])
    with pytest.raises(ForeignModelError, match="version 5"):
        read(copied, "x")


@pytest.mark.parametrize("name", ["config.json", "shared_vocabulary.json", "tokenizer.model"])
def test_a_missing_file_is_named(exported: Path, tmp_path: Path, name: str) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    (copied / name).unlink()
    place = "SentencePiece" if name == "tokenizer.model" else name
    with pytest.raises(ForeignModelError, match=place):
        read(copied, "x")
    assert recognises(ForeignDirectory(copied)) and not recognises(ForeignDirectory(tmp_path))
