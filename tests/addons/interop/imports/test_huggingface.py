"""Imports of Hugging Face's Marian give the output of transformers."""

import contextlib
import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from crosshead.addons.interop.export import export
from crosshead.addons.interop.imports.huggingface import read
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.addons.interop.tokenizer_json import foreign_ids
from crosshead.addons.interop.verify import own_log_probs
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.translation.translator import Translator
from crosshead.text.imported import ImportedTokenizer
from crosshead.vocabulary import EOS, PAD, UNK
from tests.addons.interop.imports.wrong_values import WRONG
from tests.addons.interop.small_bundles import small_bundle
from tests.parameters import mostly_slow

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture(params=mostly_slow(["shared", "separate"], ["shared"]))
def directory(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def loaded(directory: Path) -> "tuple[transformers.MarianTokenizer, transformers.MarianMTModel]":
    tokenizer = transformers.MarianTokenizer.from_pretrained(directory)
    return tokenizer, transformers.MarianMTModel.from_pretrained(directory).eval()


def ids_of_ours(tokenizer: object) -> dict[int, int]:
    """Our id of each foreign id."""
    assert isinstance(tokenizer, ImportedTokenizer)
    return {row: n for n, row in enumerate(tokenizer.vocabulary.rows) if row is not None}


def test_the_ids_and_the_logits_are_those_of_transformers(
    directory: Path, sources: list[str]
) -> None:
    tokenizer, theirs = loaded(directory)
    bundle = read(directory, "x").bundle
    ours = ids_of_ours(bundle.source_tokenizer)
    lines = [line for line in sources if "</s>" not in line and ">>" not in line]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    mine = [[*bundle.source_tokenizer.encode(line), EOS] for line in lines]
    pad = theirs.config.pad_token_id
    assert [[ours[n] for n in row if n != pad] for row in batch["input_ids"].tolist()] == mine

    chosen = slice(0, 12)
    target = torch.randint(1, theirs.config.decoder_vocab_size - 1, (12, 9))
    target[:, 0] = theirs.config.decoder_start_token_id
    with torch.inference_mode():
        expected = theirs(
            input_ids=batch["input_ids"][chosen],
            attention_mask=batch["attention_mask"][chosen],
            decoder_input_ids=target,
        ).logits
        source = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row) for row in mine[chosen]], batch_first=True, padding_value=PAD
        )
        into = ids_of_ours(bundle.target_tokenizer)
        logits = bundle.model(
            source, torch.tensor([[into[n] for n in row] for row in target.tolist()])
        )
    columns = torch.tensor([into[n] for n in range(expected.shape[-1])])
    torch.testing.assert_close(logits[..., columns], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("directory", "beam", "penalty"),
    mostly_slow(
        itertools.product(["shared", "separate"], [1, 4], [1.0, 0.6]), [("shared", 4, 0.6)]
    ),
    indirect=["directory"],
)
def test_the_search_of_the_bundle_is_that_of_transformers(
    directory: Path, sources: list[str], beam: int, penalty: float, tmp_path: Path
) -> None:
    """With its own beam, length penalty and stopping rule, until a length limit is reached."""
    copied = Path(shutil.copytree(directory, tmp_path / "copied"))
    settings = json.loads((copied / "generation_config.json").read_text())
    settings |= {"num_beams": beam, "length_penalty": penalty, "forced_eos_token_id": None}
    tokenizer, _ = loaded(copied)
    settings["bad_words_ids"] = [[settings["pad_token_id"]], [tokenizer.unk_token_id]]
    (copied / "generation_config.json").write_text(json.dumps(settings))
    tokenizer, theirs = loaded(copied)
    bundle = read(copied, "x").bundle
    lines = [line for line in sources if line.strip() and ">>" not in line and "</s>" not in line]
    generated = theirs.generate(**tokenizer(lines, return_tensors="pt", padding=True))
    found = Translator(bundle).translate(lines)
    end, start = theirs.config.eos_token_id, theirs.config.decoder_start_token_id
    rows = foreign_ids(bundle.target_tokenizer)
    pieces = bundle.target_tokenizer.pieces(range(bundle.target_tokenizer.vocab_size))
    texts: set[str] = set()
    same = cut = 0
    for [best], ids in zip(found, generated.tolist(), strict=True):
        wanted = [token for token in ids if token not in (start, end)]
        if end not in ids or best.pieces[-1] != "</s>":
            cut += 1  # transformers lets unfinished outputs win at its limit
            continue
        ours = [rows[pieces.index(piece)] for piece in best.pieces[:-1]]
        text = tokenizer.decode(ids, skip_special_tokens=True)
        same += ours == wanted and best.text.strip() == text
        texts.add(text)
    assert same == len(lines) - cut and same > 100 and len(texts) > 10


@pytest.mark.parametrize(
    ("early", "stop", "notes"), [(False, "last", 0), ("never", "exact", 0), (True, "full", 1)]
)
def test_early_stopping_is_the_rule_that_ends_the_search(
    shared: Path, tmp_path: Path, early: object, stop: str, notes: int
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / "generation_config.json").read_text())
    changed = {**settings, "early_stopping": early, "length_penalty": 0.7}
    (copied / "generation_config.json").write_text(json.dumps(changed))
    imported = read(copied, "x")
    decode = imported.bundle.config.decode
    assert (decode.stop, decode.length_penalty, decode.length_offset) == (stop, 0.7, 0)
    said = [each for each in imported.notes if "early_stopping" in each]
    assert len(said) == notes and len(imported.notes) == notes + 1  # and the largest length


def test_a_tag_of_the_vocabulary_is_one_piece_at_the_beginning(shared: Path) -> None:
    tokenizer = read(shared, "x").bundle.source_tokenizer
    assert tokenizer.special == [">>deu<<"]
    tagged, plain = (tokenizer.encode(line) for line in (">>deu<< A dog.", "A dog."))
    assert tokenizer.pieces(tagged)[0] == ">>deu<<" and tagged[1:] == plain
    assert UNK not in tagged and ">>fra<<" not in tokenizer.pieces(tokenizer.encode(">>fra<< A"))


def test_the_bundle_knows_its_origin_search_and_languages(shared: Path) -> None:
    config = read(shared, "opus-mt-en-de").bundle.config
    assert config.origin is not None and config.origin.name == "opus-mt-en-de"
    assert (config.source_language, config.target_language) == ("en", "de")
    assert config.decode.beam == 4 and config.longest_source == 63
    assert (config.decode.length_penalty, config.decode.length_offset) == (1, 0)
    assert config.model.dropout == 0.1


def test_a_dropout_of_zero_is_written_without_a_point(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / "config.json").read_text())
    changed = {**settings, "dropout": 0, "attention_dropout": 0, "activation_dropout": None}
    (copied / "config.json").write_text(json.dumps(changed))
    model = read(copied, "x").bundle.config.model
    assert (model.dropout, model.attention_dropout) == (0, 0)  # type: ignore[union-attr]


def test_missing_settings_have_the_defaults_of_transformers(shared: Path, tmp_path: Path) -> None:
    copied, usual = Path(shutil.copytree(shared, tmp_path / "copied")), transformers.MarianConfig()
    settings = json.loads((copied / "config.json").read_text())
    for key in ("tie_word_embeddings", "share_encoder_decoder_embeddings"):
        assert settings.pop(key, True) and getattr(usual, key)
    names = ("dropout", "attention_dropout", "activation_dropout")
    for key in ("activation_function", *names):
        del settings[key]
    (copied / "config.json").write_text(json.dumps(settings))
    model = read(copied, "x").bundle.config.model
    assert isinstance(model, TransformerConfig)
    assert (model.activation, model.tie) == (usual.activation_function, "three-way")
    assert [getattr(model, name) for name in names] == [getattr(usual, name) for name in names]


def test_a_file_of_torch_save_is_read_as_weights_alone(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "model.safetensors").unlink()
    theirs = transformers.MarianMTModel.from_pretrained(shared)
    torch.save(theirs.state_dict(), copied / "pytorch_model.bin")
    one, other = (read(each, "x").bundle.model for each in (shared, copied))
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.decoder.embed_tokens.weight"])
def test_a_tied_matrix_that_differs_is_refused(shared: Path, tmp_path: Path, name: str) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    weights = safetensors.torch.load_file(shared / "model.safetensors")
    table = weights["model.shared.weight"]
    for matrix in (table.clone(), table.half().float(), table[1:].clone()):
        safetensors.torch.save_file({**weights, name: matrix}, copied / "model.safetensors")
        if torch.equal(matrix, table):
            read(copied, "x")
            continue
        with pytest.raises(ForeignModelError, match=f"shared.weight and {name} differ"):
            read(copied, "x")


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "eos_token_id", 7),
        ("tokenizer_config.json", "eos_token", "\u2581a"),
        ("tokenizer_config.json", "eos_token", {"content": "\u2581a"}),
    ],
)
def test_a_source_that_ends_with_another_token_is_refused(
    shared: Path, tmp_path: Path, file: str, key: str, value: object
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / file).read_text())
    (copied / file).write_text(json.dumps({**settings, key: value}))
    with pytest.raises(ForeignModelError, match="but the tokenizer ends a source with"):
        read(copied, "x")


class _Evil:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return exec, ("raise SystemExit('code of a pickle has run')",)


def test_a_pickle_with_code_is_refused(shared: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    (copied / "model.safetensors").unlink()
    torch.save({"model.shared.weight": _Evil()}, copied / "pytorch_model.bin")
    with pytest.raises(ForeignModelError, match="holds more than weights"):
        read(copied, "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"activation_function": "quick_gelu"},
            "activation_function: expected .*, found 'quick_gelu'",
        ),
        ({"encoder_attention_heads": 8}, "encoder_attention_heads is 8, but decoder"),
        ({"encoder_ffn_dim": 64}, "encoder_ffn_dim is 64, but decoder"),
        ({"scale_embedding": False}, "scale_embedding: expected True, found False"),
        (
            {"quantization_config": {"bits": 8}},
            "quantization_config: the weights are quantized",
        ),
        ({"d_model": "wide"}, "d_model: expected a whole number, found 'wide'"),
        ({"d_model": 64}, "has shape"),
        ({"encoder_layers": 1}, "is no part of the model"),
        ({"decoder_layers": 4}, "decoder.layers.3.encoder_attn.k_proj.bias' is missing"),
        ({"vocab_size": 7}, "pieces, but config.json says 7"),
        ({"eos_token_id": None}, "has no end token"),
        ({"max_position_embeddings": 1}, "max_position_embeddings: expected 2 or more, found 1"),
        ({"dropout": 1.5}, "dropout"),
        ({"dropout": "x"}, "dropout: expected a number"),
        ({"scale_embedding": "false"}, "scale_embedding: expected True, found 'false'"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: expected true or false"),
        ({"pad_token_id": [3]}, r"pad_token_id: expected a whole number, found \[3\]"),
        (
            {"activation_function": ["relu"]},
            r"activation_function: expected text, found \['relu'\]",
        ),
    ],
)
def test_a_setting_that_cannot_be_expressed_is_refused_by_name(
    shared: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(settings | changes))
    with pytest.raises(ForeignModelError, match=message) as found:
        read(copied, "x")
    assert "\n" not in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_every_wrong_value_is_refused_in_a_line_or_harmless(
    shared: Path, tmp_path: Path, name: str
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / name).read_text())
    for key in settings:
        for value in WRONG:
            (copied / name).write_text(json.dumps({**settings, key: value}))
            with contextlib.suppress(ForeignModelError):
                read(copied, "x")


@pytest.mark.parametrize("name", ["config.json", "source.spm", "vocab.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "a directory"])
def test_a_missing_or_truncated_file_is_named(
    shared: Path, tmp_path: Path, name: str, damage: str
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    data = (copied / name).read_bytes()
    (copied / name).unlink()
    if damage == "truncated":
        (copied / name).write_bytes(data[: len(data) // 2])
    elif damage == "a directory":
        (copied / name).mkdir()
    place = "SentencePiece" if (name, damage) == ("source.spm", "truncated") else name
    with pytest.raises(ForeignModelError, match=place):
        read(copied, "x")


def test_the_stored_table_of_positions_decides(shared: Path, tmp_path: Path) -> None:
    """A file with Marian's own table is not read as one with Hugging Face's."""
    from crosshead.attention.positions import sinusoidal

    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    weights = safetensors.torch.load_file(shared / "model.safetensors")
    table = sinusoidal(64, 32, pairing="halves", rate="tensor2tensor").float()
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    safetensors.torch.save_file(
        weights | {name: table.clone() for name in names}, copied / "model.safetensors"
    )
    assert read(copied, "x").bundle.config.model.positions == "sinusoidal-marian"
    assert read(shared, "x").bundle.config.model.positions == "sinusoidal-halves"
    other = weights | {name: 1 + each for name, each in zip(names, (table, table), strict=True)}
    safetensors.torch.save_file(other, copied / "model.safetensors")
    with pytest.raises(ForeignModelError, match="holds other positions"):
        read(copied, "x")


def pegasus(directory: Path, **model: object) -> TextBundle:
    """A pre-norm model with limits of its own, and its export as a Pegasus."""
    small = small_bundle({"norm": "pre", **model}, seed=3, beam=4)
    decode = DecodeConfig(beam=4, length_penalty=0.8, length_offset=0, stop="last", max_extra=33)
    config = small.config.model_copy(update={"decode": decode, "longest_source": 40})
    bundle = dataclasses.replace(small, config=config)
    export(bundle, "huggingface", directory, verify=False)
    return bundle


@pytest.mark.parametrize(
    "model",
    [
        {"positions": "sinusoidal-halves"},
        {"positions": "sinusoidal", "start": "pad", "activation": "swish"},
    ],
)
def test_a_pegasus_that_crosshead_exports_comes_back(
    tmp_path: Path, model: dict[str, object]
) -> None:
    bundle = pegasus(tmp_path / "first", **model)
    found = read(tmp_path / "first", "x")
    again, config = found.bundle, found.bundle.config
    assert found.notes == [] and config.decode == bundle.config.decode
    assert (config.source_language, config.target_language) == ("en", "de")
    assert config.longest_source == 40
    shape = config.model
    assert isinstance(shape, TransformerConfig)
    assert (shape.norm, shape.positions, shape.tie) == ("pre", "sinusoidal-halves", "three-way")
    assert again.source_tokenizer.encode("a dog") == bundle.source_tokenizer.encode("a dog")
    examples = [([9, 30, 11], [8, 7, 60, 5]), ([15], [40]), ([30, 31, 32, 33, 34], [])]
    for left, right in zip(
        own_log_probs(bundle, examples), own_log_probs(again, examples), strict=True
    ):
        torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=0, atol=1e-5)

    second = export(again, "huggingface", tmp_path / "second", verify=False).path
    for name in (each.name for each in second.iterdir()):
        if name not in ("README.md", "verification.json", "model.safetensors"):
            one, other = (each / name for each in (tmp_path / "first", second))
            assert one.read_bytes() == other.read_bytes(), name
    weights = [
        safetensors.torch.load_file(each / "model.safetensors")
        for each in (tmp_path / "first", second)
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_logits_of_a_pegasus_are_those_of_transformers(tmp_path: Path) -> None:
    pegasus(tmp_path / "hf")
    bundle = read(tmp_path / "hf", "x").bundle
    theirs = transformers.PegasusForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    source, target = torch.tensor([[9, 30, 11, EOS]]), torch.tensor([[1, 8, 7, 60, 5]])
    with torch.inference_mode():
        logits = bundle.model(source, target)
        expected = theirs(input_ids=source, decoder_input_ids=target).logits
    known = slice(4, None)  # the export forbids the other tokens by other means
    torch.testing.assert_close(logits[..., known], expected[..., known], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("source.spm", None, "a Pegasus with the tokenizer 'MarianTokenizer', expected that of"),
        (
            "config.json",
            {"tie_word_embeddings": False},
            "tie_word_embeddings: expected true for a Pegasus",
        ),
        ("config.json", {"encoder_layers": 1}, "is no part of the model"),
    ],
)
def test_another_pegasus_is_refused(
    tmp_path: Path, file: str, changes: dict[str, object] | None, message: str
) -> None:
    pegasus(tmp_path / "hf")
    path = tmp_path / "hf" / file
    if changes is None:
        path.unlink()
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ForeignModelError, match=message):
        read(tmp_path / "hf", "x")


@pytest.mark.parametrize(
    ("stated", "longest"), [(20, 19), (64, 63), (10**30, 63), (1e30, 63), (None, 63), (1, 63)]
)
def test_the_longest_source_is_that_of_the_tokenizer(
    shared: Path, tmp_path: Path, stated: object, longest: int
) -> None:
    copied = Path(shutil.copytree(shared, tmp_path / "copied"))
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    changed = {**settings, "model_max_length": stated}
    (copied / "tokenizer_config.json").write_text(json.dumps(changed))
    assert read(copied, "x").bundle.config.longest_source == longest
