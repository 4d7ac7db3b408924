"""Imports of GPT-2 give the output of transformers, and go back unchanged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from crosshead.addons.interop.export import export
from crosshead.addons.interop.imports.gpt2 import read
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.verify import free_specials
from crosshead.bundle.text_bundle import TextBundle
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.likelihood import text_scores
from crosshead.text.imported import JsonTokenizer
from crosshead.text.streams import encode_text
from crosshead.vocabulary import EOS
from tests.addons.interop.imports.gpt2_directories import LINES, change, write_gpt2
from tests.addons.interop.small_bundles import small_bundle
from tests.parameters import mostly_slow

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

ODD = "  two  spaces \n\n\n日本 🐕 <|endoftext x|>"


def rows_of(bundle: TextBundle) -> list[int]:
    """The foreign id of each of our ids; 0 for control tokens that GPT-2 lacks."""
    assert isinstance(bundle.target_tokenizer, JsonTokenizer)
    return [row or 0 for row in bundle.target_tokenizer.vocabulary.rows]


VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "pickled": {"pickled": True},
    "untied, relu, wider, without scores' scale": {
        "tie_word_embeddings": False, "activation_function": "relu", "n_inner": 24,
        "scale_attn_weights": False, "layer_norm_epsilon": 1e-3,
    },
    "exact gelu, more rows than pieces": {"activation_function": "gelu", "vocab_size": 320},
}  # fmt: skip


@pytest.mark.parametrize("variant", mostly_slow(VARIANTS, list(VARIANTS)[1:3]))
def test_logits_and_greedy_continuations_are_those_of_transformers(
    variant: str, tmp_path: Path
) -> None:
    theirs = write_gpt2(tmp_path, **VARIANTS[variant])
    found = read(tmp_path, "x")
    bundle, rows = found.bundle, rows_of(found.bundle)
    assert found.notes == []
    ours = {row: index for index, row in enumerate(rows) if index == EOS or index > 3}
    foreign = torch.randint(0, theirs.config.vocab_size, (3, 40))
    with torch.inference_mode():
        expected = theirs(foreign).logits
        logits = bundle.model(torch.tensor([[ours[n] for n in row] for row in foreign.tolist()]))
    columns = torch.tensor([ours[row] for row in range(theirs.config.vocab_size)])
    torch.testing.assert_close(logits[..., columns], expected, rtol=0, atol=1e-4)
    assert logits.softmax(-1)[..., [0, 1, 3]].eq(0).all()

    generator, decode = TextGenerator(bundle), bundle.config.decode
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (LINES[0], ODD):
        ids = tokenizer(text)["input_ids"]
        mine = encode_text(bundle.target_tokenizer, text).tolist()
        assert [rows[index] for index in mine] == ids
        output = theirs.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
            max_length=len(ids) + 9, eos_token_id=None, pad_token_id=0,
        )[0].tolist()  # fmt: skip
        tokens = list(generator._tokens(mine, 9, decode, 0))
        assert [rows[index] for index in tokens] == output[len(ids) :]
        written = "".join(generator.write(text, length=9))
        assert written == bundle.target_tokenizer.decode([*mine, *tokens])[len(text) :]


def test_missing_settings_have_the_defaults_of_transformers(tmp_path: Path) -> None:
    write_gpt2(tmp_path, resid_pdrop=0.2, attn_pdrop=0.3)
    stated, usual = read(tmp_path, "x").bundle.config.model, transformers.GPT2Config()
    assert (stated.dropout, stated.attention_dropout) == (0.2, 0.3)
    missing = ("activation_function", "layer_norm_epsilon", "scale_attn_weights", "resid_pdrop",
               "attn_pdrop", "embd_pdrop")  # fmt: skip
    settings = json.loads((tmp_path / "config.json").read_text())
    kept = {key: value for key, value in settings.items() if key not in missing}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    found = read(tmp_path, "x").bundle.config.model
    assert (found.norm_eps, found.dropout, found.attention_dropout) == (
        usual.layer_norm_epsilon, usual.resid_pdrop, usual.attn_pdrop
    )  # fmt: skip
    assert (usual.activation_function, found.activation) == ("gelu_new", "gelu-tanh")
    assert usual.scale_attn_weights and found.score == "scaled-dot"


def test_the_score_of_a_text_is_that_of_transformers(tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path)
    bundle = read(tmp_path, "x").bundle
    ids = torch.tensor([transformers.AutoTokenizer.from_pretrained(tmp_path)(ODD)["input_ids"]])
    with torch.inference_mode():
        expected = float(theirs(ids, labels=ids).loss) * (ids.shape[1] - 1)
    scored = TextGenerator(bundle).score(ODD)
    assert sum(nats for nats, _, _ in scored.windows) == pytest.approx(expected, abs=1e-3)
    assert len(text_scores(scored)) > 0


@pytest.mark.parametrize("variant", mostly_slow(VARIANTS, list(VARIANTS)[:1]))
def test_import_and_export_give_the_same_weights_and_settings(variant: str, tmp_path: Path) -> None:
    first = tmp_path / "first"
    theirs = write_gpt2(first, **VARIANTS[variant])
    bundle = read(first, "x").bundle
    done = export(bundle, "huggingface", tmp_path / "second", sources=LINES[:3])
    assert done.comparison is not None and done.comparison.largest_difference < 1e-4
    assert done.comparison.different == 0
    again = transformers.GPT2LMHeadModel.from_pretrained(done.path).state_dict()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(weight, again[name]), name
    left, right = (json.loads((each / "config.json").read_text()) for each in (first, done.path))
    for key in left.keys() & right.keys() - {"pad_token_id", "n_inner"}:
        assert left[key] == right[key], key
    left_file, right_file = (each / "tokenizer.json" for each in (first, done.path))
    assert left_file.read_text() == right_file.read_text()


def test_a_model_of_crossheads_own_comes_back(tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language", "positions": "learned", "max_length": 30})
    done = export(bundle, "huggingface", tmp_path / "out", verify=False)
    again = read(done.path, "x").bundle
    text = "a dog\nruns"
    ids = encode_text(bundle.target_tokenizer, text).tolist()
    assert encode_text(again.target_tokenizer, text).tolist() == ids
    with torch.inference_mode():
        tokens = torch.tensor([[EOS, *ids]])
        torch.testing.assert_close(again.model(tokens), bundle.model(tokens), rtol=0, atol=1e-4)
    decode = bundle.config.decode
    vars(again)["specials"] = free_specials(again)  # as those of small bundles
    both = [TextGenerator(each)._tokens([EOS, *ids], 9, decode, 0) for each in (again, bundle)]
    assert [*both[0]] == [*both[1]]
    assert again.target_tokenizer.prompt_start == (EOS,) and again.config.model.absent == []


def test_sampling_and_notes_come_along(tmp_path: Path) -> None:
    write_gpt2(tmp_path)
    settings = {"do_sample": True, "temperature": 0.7, "repetition_penalty": 1.2}
    change(tmp_path / "generation_config.json", settings)
    found = read(tmp_path, "x")
    decode = found.bundle.config.decode
    assert (decode.sample, decode.temperature, decode.top_k) == (True, 0.7, 50)
    assert "repetition_penalty = 1.2 does not come along" in found.notes[0]
    assert found.bundle.config.origin is not None and found.bundle.config.longest_source == 48


def test_a_projection_of_its_own_beside_tied_embeddings_is_refused(
    written: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(written, tmp_path / "copied"))
    weights = load_file(written / "model.safetensors")
    table = weights["transformer.wte.weight"]
    save_file({**weights, "lm_head.weight": table.clone()}, copied / "model.safetensors")
    read(copied, "x")
    save_file({**weights, "lm_head.weight": 2 * table}, copied / "model.safetensors")
    with pytest.raises(ForeignModelError, match=r"wte\.weight and lm_head\.weight differ"):
        read(copied, "x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx: expected .*, found True",
        ),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn: expected .*, found True"),
        ({"add_cross_attention": True}, "add_cross_attention: expected .*, found True"),
        ({"activation_function": "mish"}, "activation_function: expected 'relu', .* found 'mish'"),
        (
            {"architectures": ["GPT2ForSequenceClassification"]},
            "architectures: expected 'GPT2LMHeadModel' or",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config: the weights are quantized"),
        ({"n_head": 3}, "d_model 16 is not divisible by heads 3"),
        ({"n_layer": "two"}, "n_layer: expected a whole number, found 'two'"),
        ({"n_layer": 3}, r"tensor 'transformer\.h\.2\.attn\.c_attn\.bias' is missing"),
        ({"n_positions": 47}, r"'transformer\.wpe\.weight' has shape \[48, 16\], expected \[47"),
        ({"vocab_size": 200}, r"tokenizer\.json: has the id 299, but the model has 200 ids"),
        ({"eos_token_id": None, "bos_token_id": None}, "eos_token_id is None, expected the id"),
        ({"eos_token_id": 5000}, r"tokenizer\.json: the control ids"),
        ({"vocab_size": 1 << 40}, r"tokenizer\.json: expected 1 to .* ids"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(
    values: dict[str, Any], message: str, written: Path, tmp_path: Path
) -> None:
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (tmp_path / name).write_bytes((written / name).read_bytes())
    change(tmp_path / "config.json", values)
    with pytest.raises(ForeignModelError, match=message):
        read(tmp_path, "x")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the usual kind."""
    place = tmp_path_factory.mktemp("gpt2")
    write_gpt2(place)
    return place


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("tokenizer.json", b"{}", "no tokenizer of the library tokenizers"),
        ("tokenizer.json", b"\xff", "no tokenizer of the library tokenizers"),
        ("model.safetensors", b"x", "model.safetensors"),
        ("model.safetensors", None, "has neither model.safetensors nor pytorch_model.bin"),
        ("tokenizer.json", None, "has no tokenizer.json; load its tokenizer"),
    ],
)
def test_a_damaged_or_missing_file_is_named(
    name: str, data: bytes | None, message: str, written: Path, tmp_path: Path
) -> None:
    for each in ("model.safetensors", "tokenizer.json", "config.json"):
        (tmp_path / each).write_bytes((written / each).read_bytes())
    if data is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ForeignModelError, match=message):
        read(tmp_path, "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
            "no tokenizer of the library tokenizers",
        ),
        (
            {"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "zz"}},
            "cannot encode every text",
        ),
        (
            {"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None}},
            "cannot encode every text",
        ),
    ],
)
def test_a_tokenizer_that_cannot_encode_is_refused_in_a_line(
    changes: dict[str, Any], message: str, written: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(written, tmp_path / "copied"))
    change(copied / "tokenizer.json", changes)
    with pytest.raises(ForeignModelError, match=rf"tokenizer\.json: {message}") as error:
        read(copied, "x")
    assert "\n" not in str(error.value)
