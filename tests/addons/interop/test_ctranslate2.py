"""CTranslate2 computes the same as every model that it can express."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.ctranslate2 import (
    CTRANSLATE2,
    CTRANSLATE2_LANGUAGE,
    NEVER,
    Loaded,
    LoadedGenerator,
    output_bias,
)
from crosshead.addons.interop.ctranslate2_model import library
from crosshead.addons.interop.export import tolerance_of
from crosshead.addons.interop.verify import check_comparison, compare_export
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.text.symbols import WordTokenizer
from crosshead.vocabulary import PAD
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, small_bundle
from tests.parameters import mostly_slow


@pytest.mark.parametrize("name", cells_of(CTRANSLATE2))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(CTRANSLATE2, name, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        {"positions": "t5", "score": "dot", "kv_heads": 2, "norm": "pre"},
        {"positions": "rotary", "kv_heads": 1, "score": "dot"},
        {"positions": "shaw", "tie": "none", "output_bias": True},
        {"positions": "alibi", "start": "pad", "activation": "swish"},
    ],
    ids=lambda model: model["positions"],
)
def test_options_combine(model: dict[str, object], tmp_path: Path) -> None:
    bundle = small_bundle(model, seed=1)
    CTRANSLATE2.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, Loaded(bundle, tmp_path), None, every_piece=True)
    assert found.largest_difference < 1e-5 and not found.different and not found.misread


@pytest.mark.parametrize("kind", [kind for kind in CTRANSLATE2.types if kind != "float32"])
def test_other_number_formats_are_close(kind: str, tmp_path: Path) -> None:
    bundle = small_bundle(ends=False)
    before = [weight.clone() for weight in bundle.model.parameters()]
    CTRANSLATE2.write(bundle, kind, tmp_path)
    assert all(map(torch.equal, before, bundle.model.parameters()))  # quantised in place elsewhere
    loaded = Loaded(bundle, tmp_path)
    found = compare_export(bundle, loaded, TEXT["source"], every_piece=False)
    check_comparison(found, tolerance_of(CTRANSLATE2, kind, loaded), kind)
    assert found.largest_difference > 1e-5  # float32 would be closer: the weights are rounded


def test_beam_search_finds_the_same_translations(tmp_path: Path) -> None:
    bundle = small_bundle(beam=4)
    CTRANSLATE2.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, Loaded(bundle, tmp_path), TEXT["source"], every_piece=False)
    assert found.compared > 0 == found.different and found.beam == 4


def test_the_sentencepiece_model_beside_it_is_enough_to_translate(tmp_path: Path) -> None:
    bundle = small_bundle(beam=2)
    CTRANSLATE2.write(bundle, "float32", tmp_path)
    search = ForeignSearch(2, 0.4, 20)
    CTRANSLATE2.write_search(bundle, search, tmp_path)
    settings = json.loads((tmp_path / "search.json").read_text())
    assert settings["max_input_length"] == 0  # CTranslate2 drops what follows 1,024 tokens
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    translator = library().Translator(str(tmp_path))
    tokens = pieces.encode(TEXT["source"], out_type=str)
    texts = [
        pieces.decode(each.hypotheses[0]) for each in translator.translate_batch(tokens, **settings)
    ]
    assert texts == Loaded(bundle, tmp_path).translate(TEXT["source"], search)


def test_a_word_with_the_name_of_a_control_piece_is_refused() -> None:
    bundle = small_bundle({}, {"kind": "words"})
    count = bundle.config.target_vocabulary - 5  # without <pad>, <s>, </s> and twice <unk>
    words = WordTokenizer([*(f"w{n}" for n in range(count)), "<unk>"])
    named = replace(bundle, source_tokenizer=words, target_tokenizer=words)
    assert not CTRANSLATE2.refusals(bundle)
    assert "same name" in str(CTRANSLATE2.refusals(named))


def test_tokens_that_search_never_produces_are_ruled_out() -> None:
    bundle = small_bundle({"output_bias": True})
    bias = output_bias(bundle.model.projection.bias, bundle)
    never = np.flatnonzero(bias == NEVER)
    assert PAD in never and sorted(never) == list(bundle.forbidden)
    others = np.setdiff1d(np.arange(len(bias)), never)
    np.testing.assert_array_equal(bias[others], bundle.model.projection.bias.numpy()[others])


@pytest.mark.parametrize("name", cells_of(CTRANSLATE2_LANGUAGE))
def test_an_option_is_exported_or_refused_ctranslate2_language(name: str, tmp_path: Path) -> None:
    found = check_cell(CTRANSLATE2_LANGUAGE, name, tmp_path)
    assert found is None or (found.different, found.outputs) == (0, "continuations")


COMBINED: dict[str, dict[str, object]] = {
    "t5": {"score": "dot", "kv_heads": 2, "norm": "post", "tie": True},
    "rotary": {"kv_heads": 1, "score": "dot", "scale_embeddings": False},
    "shaw": {"output_bias": True},
    "alibi": {"activation": "swish"},
}


@pytest.mark.parametrize("positions", mostly_slow(COMBINED, ["t5", "rotary"]))
def test_options_combine_ctranslate2_language(positions: str, tmp_path: Path) -> None:
    model = {"architecture": "language", "positions": positions, **COMBINED[positions]}
    bundle = small_bundle(model, seed=1)
    CTRANSLATE2_LANGUAGE.write(bundle, "float32", tmp_path)
    found = compare_export(
        bundle, LoadedGenerator(bundle, tmp_path), TEXT["source"], every_piece=True
    )
    assert found.largest_difference < 1e-5 and not found.different and not found.misread


@pytest.mark.parametrize(
    "kind",
    mostly_slow([each for each in CTRANSLATE2_LANGUAGE.types if each != "float32"], ["int8"]),
)
def test_other_number_formats_are_close_ctranslate2_language(kind: str, tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language"})
    CTRANSLATE2_LANGUAGE.write(bundle, kind, tmp_path)
    loaded = LoadedGenerator(bundle, tmp_path)
    found = compare_export(bundle, loaded, None, every_piece=False)
    check_comparison(found, tolerance_of(CTRANSLATE2_LANGUAGE, kind, loaded), kind)
    assert found.largest_difference > 1e-5  # float32 would be closer: the weights are rounded


def test_the_files_beside_it_are_enough_to_continue_a_text(tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language"})
    CTRANSLATE2_LANGUAGE.write(bundle, "float32", tmp_path)
    CTRANSLATE2_LANGUAGE.write_search(bundle, ForeignSearch(1, 0.0, 20), tmp_path)
    settings = json.loads((tmp_path / "search.json").read_text())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    prompt = ["</s>", *pieces.encode("a dog", out_type=str)]
    [found] = library().Generator(str(tmp_path)).generate_batch([prompt], **settings)
    decode = bundle.config.decode
    expected = [*TextGenerator(bundle)._tokens([2, *pieces.encode("a dog")], 30, decode, 0)]
    ids = [pieces.piece_to_id(piece) for piece in found.sequences[0]]
    assert ids == [2, *pieces.encode("a dog"), *expected][:21] and len(ids) == 21


@pytest.mark.parametrize("positions", ["sinusoidal", "alibi"])
def test_a_context_of_more_than_1024_tokens_is_exported(positions: str, tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language", "positions": positions})
    config = bundle.config.model_copy(update={"longest_source": 1100})
    long = dataclasses.replace(bundle, config=config)
    CTRANSLATE2_LANGUAGE.write(long, "float32", tmp_path)
    loaded = LoadedGenerator(long, tmp_path)
    found = compare_export(long, loaded, TEXT["source"][:2], every_piece=True)
    assert found.tokens > 1100 and found.largest_difference < 1e-5


def test_settings_of_sampling_travel(tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language"})
    search = ForeignSearch(1, 0.0, 20, sample=True, temperature=0.8, top_k=7, top_p=0.9)
    CTRANSLATE2_LANGUAGE.write_search(bundle, search, tmp_path)
    assert json.loads((tmp_path / "search.json").read_text()) == {
        "max_length": 20,
        "end_token": ["<pad>"],
        "sampling_temperature": 0.8,
        "sampling_topk": 7,
        "sampling_topp": 0.9,
    }
