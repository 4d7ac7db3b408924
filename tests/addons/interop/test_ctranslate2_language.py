"""CTranslate2's generator computes the same as every language model that it can express."""

import dataclasses
import json
from pathlib import Path

import pytest
import sentencepiece

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.ctranslate2_language import CTRANSLATE2_LANGUAGE, LoadedGenerator
from crosshead.addons.interop.ctranslate2_library import library
from crosshead.addons.interop.export import tolerance_of
from crosshead.addons.interop.verify import check_comparison, compare_export
from crosshead.tasks.language.text_generator import TextGenerator
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, small_bundle
from tests.parameters import mostly_slow


@pytest.mark.parametrize("name", cells_of(CTRANSLATE2_LANGUAGE))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    found = check_cell(CTRANSLATE2_LANGUAGE, name, tmp_path)
    assert found is None or (found.different, found.outputs) == (0, "continuations")


COMBINED: dict[str, dict[str, object]] = {
    "t5": {"score": "general", "kv_heads": 2, "norm": "post", "tie": True},
    "rotary": {"d_key": 6, "d_value": 9, "kv_heads": 1, "score": "dot", "scale_embeddings": False},
    "shaw": {"d_key": 8, "d_value": 5, "output_bias": True},
    "alibi": {"d_key": 3, "d_value": 7},
}


@pytest.mark.parametrize("positions", mostly_slow(COMBINED, ["t5", "rotary"]))
def test_options_combine(positions: str, tmp_path: Path) -> None:
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
def test_other_number_formats_are_close(kind: str, tmp_path: Path) -> None:
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
