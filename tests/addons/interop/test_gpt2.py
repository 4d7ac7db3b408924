"""transformers computes the same as every language model that is exported to GPT-2."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers

from crosshead.addons.interop.base import ForeignSearch, prompted
from crosshead.addons.interop.export import export
from crosshead.addons.interop.gpt2 import GPT2, LoadedGPT2
from crosshead.addons.interop.verify import compare_export
from crosshead.errors import ConfigError
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.vocabulary import UNK
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.small_bundles import TEXT, small_bundle

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
LEARNED = {"architecture": "language", "positions": "learned", "max_length": 40}


@pytest.mark.parametrize("name", cells_of(GPT2))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    found = check_cell(GPT2, name, tmp_path)
    assert found is None or (found.different, found.outputs) == (0, "continuations")


def test_options_combine(tmp_path: Path) -> None:
    model = {"positions": "sinusoidal", "kv_heads": 1, "score": "dot", "tie": True,
             "activation": "gelu-tanh", "norm_eps": 1e-3, "d_model": 15, "heads": 3}  # fmt: skip
    bundle = small_bundle({"architecture": "language", **model}, seed=1)
    GPT2.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, LoadedGPT2(bundle, tmp_path), TEXT["source"], every_piece=True)
    assert found.largest_difference < 1e-5 and not found.different and not found.misread


def test_an_export_is_verified_and_says_so(tmp_path: Path) -> None:
    bundle = small_bundle(LEARNED)
    with torch.no_grad():  # its outputs are text: bytes are never the most probable
        bundle.model.projection.weight[UNK + 1 : UNK + 257] = 0
    lines = ["a dog", "two men", "a man runs", "a b"]
    done = export(bundle, "huggingface", tmp_path / "out", sources=lines)
    said = json.loads((done.path / "verification.json").read_text())
    assert (said["format"], said["outputs"], said["lines"]) == ("huggingface", "continuations", 4)
    assert said["different"] == 0 and said["largest_difference"] < 1e-5
    assert "identical continuations 100.0% (4 of 4)" in str(done.comparison)
    front = (done.path / "README.md").read_text()
    assert 'pipeline_tag: "text-generation"' in front and "A model that writes text" in front


def test_a_tied_matrix_without_a_factor_is_stored_once(tmp_path: Path) -> None:
    bundle = small_bundle({**LEARNED, "tie": True, "scale_embeddings": False})
    GPT2.write(bundle, "float32", tmp_path)
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
    assert torch.equal(model.lm_head.weight, bundle.model.embeddings.weight)
    assert model.config.tie_word_embeddings


def test_options_that_gpt2_lacks_are_refused_by_name(tmp_path: Path) -> None:
    bundle = small_bundle({"architecture": "language", "norm": "post", "output_bias": True})
    with pytest.raises(ConfigError) as refusal:
        export(bundle, "huggingface", tmp_path / "out")
    said = str(refusal.value)
    assert said.startswith("huggingface cannot express model.norm = post (only pre); ")
    assert "model.positions = rotary (only learned or " in said
    assert "model.output_bias = true (" in said and said.endswith(": export to ctranslate2")
    assert not list(tmp_path.iterdir())


def test_the_files_beside_it_are_enough_to_continue_a_text(tmp_path: Path) -> None:
    bundle = small_bundle(LEARNED)
    GPT2.write(bundle, "float32", tmp_path)
    GPT2.write_search(bundle, ForeignSearch(1, 0.0, 30), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    prompt = "a dog runs\nthe dog"
    batch = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    found = model.generate(**batch)[0].tolist()
    given = prompted(bundle, prompt)
    generator, decode = TextGenerator(bundle), bundle.config.decode
    continued = generator._tokens(given, 30 - len(given), decode, 0)
    assert found == [*given, *continued] and len(found) == 30
    assert tokenizer.decode(given) == f"\n{prompt}"


def test_settings_of_the_search_are_the_defaults_of_generate(tmp_path: Path) -> None:
    bundle = small_bundle(LEARNED)
    decode = bundle.config.decode.model_copy(update={"sample": True, "beam": 1, "top_k": 7})
    config = bundle.config.model_copy(update={"decode": decode})
    done = export(
        dataclasses.replace(bundle, config=config), "huggingface", tmp_path / "out", verify=False
    )
    found = json.loads((done.path / "generation_config.json").read_text())
    assert str(done.search) == "samples, temperature 1, top-k 7, top-p 1"
    assert (found["do_sample"], found["top_k"], found["max_length"]) == (True, 7, 30)
    assert found["eos_token_id"] is None and [0] in found["bad_words_ids"]
    GPT2.write_search(bundle, ForeignSearch(3, 0.5, 20), done.path)
    found = json.loads((done.path / "generation_config.json").read_text())
    assert (found["num_beams"], found["length_penalty"]) == (3, 0.5) and "do_sample" not in found
