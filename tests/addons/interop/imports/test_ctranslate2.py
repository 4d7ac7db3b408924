"""Imports of CTranslate2's Transformers compute what CTranslate2 computes."""

import contextlib
import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, CTRANSLATE2_LANGUAGE
from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.imports.ctranslate2 import read
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.verify import own_log_probs
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.settings import DecodeConfig
from crosshead.tasks.translation.translator import Translator
from crosshead.vocabulary import BOS, EOS, PAD
from tests.addons.interop.imports.ctranslate2_variables import variables, write_variables
from tests.addons.interop.imports.wrong_values import WRONG
from tests.addons.interop.small_bundles import small_bundle

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

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


def differences(bundle: TextBundle, directory: Path, *, ends: bool) -> float:
    """The largest difference of a log-probability from CTranslate2's."""
    translator = library().Translator(str(directory), device="cpu", compute_type="float32")
    end = [] if ends else ["</s>"]
    sides = bundle.source_tokenizer, bundle.target_tokenizer
    known = [[n for n in range(4, each.vocab_size) if "<" not in each.pieces([n])[0]]
             for each in sides]  # fmt: skip
    examples = [
        tuple([ids[(7 * row + 3 * n + side) % len(ids)] for n in range(row + 2)]
              for side, ids in enumerate(known))
        for row in range(6)
    ]  # fmt: skip
    scored = translator.score_batch(
        [[*sides[0].pieces(source), *end] for source, _ in examples],
        [sides[1].pieces(target) for _, target in examples],
    )
    theirs = [each.log_probs for each in scored]
    found = []
    for source, target in examples:
        fed = torch.tensor([[bundle.specials.start, *target]])
        with torch.inference_mode():
            logits = bundle.model(torch.tensor([[*source, EOS]]), fed)[0]
        chosen = torch.tensor([*target, EOS])[:, None]
        found += logits.log_softmax(-1).gather(-1, chosen)[:, 0].tolist()
    return float(np.abs(np.subtract(found, [n for row in theirs for n in row])).max())


@pytest.mark.parametrize(
    ("numbers", "tolerance"), [("float32", 1e-4), ("float16", 1e-3), ("bfloat16", 0.05)]
)
def test_a_model_of_ctranslate2s_own_converter_scores_and_translates_the_same(
    shared: Path, sources: list[str], tmp_path: Path, numbers: str, tolerance: float
) -> None:
    """A conversion of Marian begins at zero, and leaves the end of the source to the caller.

    In float16 and bfloat16, CTranslate2 rounds the table of positions, which an import computes
    anew.
    """
    converters = importlib.import_module("ctranslate2.converters")
    converter = converters.TransformersConverter(
        str(shared), copy_files=["source.spm", "target.spm"]
    )
    directory = Path(converter.convert(str(tmp_path / "converted"), quantization=numbers))
    found = read(directory, "x")
    bundle = found.bundle
    assert "add_source_eos is off" in found.notes[1]
    assert differences(bundle, directory, ends=False) < tolerance
    translator = library().Translator(str(directory), device="cpu", compute_type="float32")
    lines = [line for line in sources[:40] if line.strip()]
    pieces = [
        bundle.source_tokenizer.pieces(bundle.source_tokenizer.encode(line)) for line in lines
    ]
    theirs = translator.translate_batch(
        [[*each, "</s>"] for each in pieces], beam_size=1, max_decoding_length=40
    )
    ours = Translator(bundle).translate(lines, decode=DecodeConfig(beam=1, length_penalty=0.0))
    rows = [
        (best.pieces[:-1], each.hypotheses[0])
        for [best], each in zip(ours, theirs, strict=True)
        if best.pieces[-1] == "</s>" and len(best.pieces) < 40
    ]
    assert [left for left, _ in rows] == [right for _, right in rows] and len(rows) > 20


def starting_at_zero(directory: Path, *zero: int) -> None:
    """Let an export begin at zero, and give tokens of the target zero vectors."""
    found = variables(directory)
    found["decoder/start_from_zero_embedding"] = np.array(1, np.int8)
    vectors = found["decoder/embeddings/weight"].copy()
    vectors[[PAD, BOS]] = 1
    vectors[list(zero)] = 0
    write_variables(directory, {**found, "decoder/embeddings/weight": vectors})


@pytest.mark.parametrize(("zero", "start"), [([PAD], "pad"), ([BOS], "bos"), ([PAD, BOS], "pad")])
def test_a_target_that_begins_at_zero_begins_with_a_token_whose_vector_is_zero(
    exported: Path, tmp_path: Path, zero: list[int], start: str
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    starting_at_zero(copied, *zero)
    bundle = read(copied, "x").bundle
    assert bundle.config.model.start == start  # type: ignore[union-attr]
    assert differences(bundle, copied, ends=True) < 1e-4


def test_a_target_that_begins_at_zero_without_a_zero_vector_is_refused(
    exported: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    starting_at_zero(copied)
    with pytest.raises(ForeignModelError, match=r"model\.bin: targets begin with a zero vector"):
        read(copied, "x")


def test_a_target_may_begin_with_any_token(exported: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    settings = json.loads((copied / "config.json").read_text())
    piece = json.loads((copied / "shared_vocabulary.json").read_text())[-1]
    (copied / "config.json").write_text(json.dumps({**settings, "decoder_start_token": piece}))
    bundle = read(copied, "x").bundle
    assert bundle.target_tokenizer.pieces([bundle.specials.start]) == [piece]
    assert differences(bundle, copied, ends=True) < 1e-4


def test_language_models_are_refused_by_name(tmp_path: Path) -> None:
    language = small_bundle({"architecture": "language", "positions": "learned", "max_length": 30})
    CTRANSLATE2_LANGUAGE.write(language, "float32", tmp_path)
    with pytest.raises(ForeignModelError, match="holds 'TransformerDecoderSpec', revision"):
        read(tmp_path, "x")


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
        ({"decoder_start_token": "?"}, "decoder_start_token is '\\?', which is not in the vocab"),
        ({"eos_token": "?"}, "has no end token"),
        ({"unk_token": None}, "has no piece <unk>"),
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


@pytest.mark.parametrize("numbers", ["int8", "int16", "int8_bfloat16"])
def test_quantized_weights_are_refused_by_name(tmp_path: Path, numbers: str) -> None:
    CTRANSLATE2.write(small_bundle(ends=False), numbers, tmp_path)
    kind = numbers.partition("_")[0]
    with pytest.raises(ForeignModelError, match=f"is {kind}, expected floating-point: import"):
        read(tmp_path, "x")


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-halves", "sinusoidal-marian"])
def test_bfloat16_weights_are_those_of_the_file(tmp_path: Path, positions: str) -> None:
    """Each number is the upper half of a float32."""
    bundle = small_bundle({"positions": positions}, ends=False)
    CTRANSLATE2.write(bundle, "bfloat16", tmp_path)
    again = read(tmp_path, "x").bundle
    assert again.config.model.positions == positions  # type: ignore[union-attr]
    found = dict(again.model.named_parameters())
    for name, weight in bundle.model.named_parameters():
        if "projection.bias" not in name and "embeddings" not in name:
            assert torch.equal(found[name], weight.bfloat16().float()), name
    assert differences(again, tmp_path, ends=True) < 0.05


def test_a_model_has_no_search_settings(exported: Path) -> None:
    found = read(exported, "x")
    config = found.bundle.config
    assert (config.decode.beam, config.longest_source, len(found.notes)) == (4, 1023, 1)
    assert (config.decode.length_penalty, config.decode.length_offset) == (0, 0)
    assert config.decode.min_length == 1


def test_an_export_comes_back_with_its_search(exported: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    CTRANSLATE2.write_search(small_bundle(), ForeignSearch(1, 0.5, 81, min_length=2), copied)
    found = read(copied, "x")
    config = found.bundle.config
    decode = config.decode
    assert (decode.beam, decode.length_penalty, decode.length_offset) == (1, 0.5, 0)
    assert (decode.min_length, decode.max_extra + config.longest_source + 1) == (2, 81)
    assert not found.notes
    for key in json.loads((copied / "search.json").read_text()):
        for value in WRONG:
            (copied / "search.json").write_text(json.dumps({key: value}))
            with contextlib.suppress(ForeignModelError):
                DecodeConfig(**read(copied, "x").bundle.config.decode.model_dump())


@pytest.mark.parametrize(
    ("version", "advice"), [(9, "; convert the original"), (5, "; convert the original")]
)
def test_another_version_of_the_file_is_refused(
    exported: Path, tmp_path: Path, version: int, advice: str
) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    data = (copied / "model.bin").read_bytes()
    (copied / "model.bin").write_bytes(bytes([version]) + data[1:])
    with pytest.raises(
        ForeignModelError, match=f"version {version} of CTranslate2's format"
    ) as found:
        read(copied, "x")
    assert advice in str(found.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder/num_heads", np.array(0, np.int16), "num_heads of encoder and decoder"),
        ("num_heads", np.array(0, np.int16), "heads: expected"),
        ("num_heads", np.zeros(0, np.int16), "num_heads of encoder and decoder"),
        ("num_heads", np.array(np.nan, np.float32), "num_heads of encoder and decoder"),
        ("num_heads", np.zeros((2, 2), np.int16), "num_heads of encoder and decoder"),
        ("num_heads", None, "num_heads of encoder and decoder"),
        ("position_encodings/encodings", np.zeros(3, np.float32), "is no table"),
        ("layer_0/self_attention/linear_0/weight", np.zeros((5, 16), np.float32), "has shape"),
        ("layer_0/self_attention/linear_0/bias", np.zeros((), np.float32), "has shape"),
        ("layer_0/ffn/linear_0/weight", np.zeros((2, 2, 2), np.float32), "has shape"),
        ("encoder/layer_0/ffn/linear_0/weight", None, "linear_0/weight is missing"),
        ("decoder/projection/weight", np.zeros((), np.float32), "projection/weight is no matrix"),
        (
            "decoder/projection/weight",
            np.zeros((0, 16), np.float32),
            "projection/weight is no matrix",
        ),
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


def test_bytes_behind_the_end_are_refused(exported: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    with (copied / "model.bin").open("ab") as file:
        file.write(b"xxxx")
    with pytest.raises(ForeignModelError, match="4 bytes stand behind its end"):
        read(copied, "x")


@pytest.mark.parametrize("name", ["config.json", "shared_vocabulary.json", "tokenizer.model"])
def test_a_missing_file_is_named(exported: Path, tmp_path: Path, name: str) -> None:
    copied = Path(shutil.copytree(exported, tmp_path / "copied"))
    (copied / name).unlink()
    place = "SentencePiece" if name == "tokenizer.model" else name
    with pytest.raises(ForeignModelError, match=place):
        read(copied, "x")
