"""transformers computes the same as every model that is exported to it, and imports come back."""

import dataclasses
import json
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from crosshead.addons.interop import verify
from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.export import export
from crosshead.addons.interop.huggingface import HUGGINGFACE, LoadedMarian
from crosshead.addons.interop.imports.huggingface import read
from crosshead.addons.interop.verify import compare_export, free_specials, source_ids
from crosshead.errors import ConfigError
from crosshead.inspection import attention_weights
from crosshead.models.base import decodable
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.translation.translator import Translator
from crosshead.vocabulary import EOS
from tests.addons.interop.cells import cells_of, check_cell
from tests.addons.interop.imports import marian_directories as marian
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle
from tests.parameters import mostly_slow

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.mark.parametrize("name", cells_of(HUGGINGFACE))
def test_an_option_is_exported_or_refused(name: str, tmp_path: Path) -> None:
    check_cell(HUGGINGFACE, name, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        {"norm": "pre", "kv_heads": 2, "output_bias": True, "start": "pad"},
        {"tie": "none", "activation": "swish", "kv_heads": 1, "positions": "sinusoidal-halves"},
    ],
    ids=["pegasus", "marian"],
)
def test_options_combine_and_beams_agree(model: dict[str, object], tmp_path: Path) -> None:
    bundle = small_bundle(model, seed=1, beam=4)
    HUGGINGFACE.write(bundle, "float32", tmp_path)
    found = compare_export(bundle, LoadedMarian(bundle, tmp_path), TEXT["source"], every_piece=True)
    assert found.largest_difference < 1e-5 and not found.different and not found.misread


def test_a_pre_norm_model_with_two_matrices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.norm = pre with model\.tie other than"):
        export(small_bundle({"norm": "pre", "tie": "two-way"}), "huggingface", tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-halves"])
def test_transformers_finds_every_weight_and_writes_the_same(
    norm: str, positions: str, tmp_path: Path
) -> None:
    """Without a weight that it stores itself, such as the positions of Pegasus, it warns."""
    bundle = small_bundle({"norm": norm, "positions": positions})
    HUGGINGFACE.write(bundle, "float32", tmp_path)
    found = (
        transformers.PegasusForConditionalGeneration
        if norm == "pre"
        else transformers.MarianMTModel
    ).from_pretrained(tmp_path, output_loading_info=True)
    model, report = found
    assert not any(report.values()), report
    model.save_pretrained(tmp_path / "again")
    ours, theirs = (
        load_file(each / "model.safetensors") for each in (tmp_path, tmp_path / "again")
    )
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name])
    for side in (model.model.encoder, model.model.decoder):
        table = side.embed_positions
        torch.testing.assert_close(table.weight, table.create_weight())


def test_the_exact_rule_and_the_least_length_travel(tmp_path: Path) -> None:
    """With it, transformers finds crosshead's translations; by its own rule, other ones."""
    bundle = small_bundle(beam=3)
    decode = bundle.config.decode.model_copy(
        update={"stop": "exact", "length_penalty": 2.0, "length_offset": 0.0, "min_length": 4}
    )
    exact = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    done = export(exact, "huggingface", tmp_path / "out", verify=False)
    settings = json.loads((done.path / "generation_config.json").read_text())
    assert settings["early_stopping"] == "never"
    back = read(done.path, "x").bundle.config.decode
    assert (back.stop, back.min_length, settings["min_new_tokens"]) == ("exact", 4, 4)
    search = done.search
    lines = verify._made_up(exact)[:12]
    found = search_all(
        decodable(exact.model),
        TokenInputs(source_ids(exact, lines)),
        free_specials(exact),
        decode.model_copy(update={"max_extra": 1000}),
        most=search.max_length,
    )
    own = [exact.target_tokenizer.decode(each[0].tokens) for each in found]
    loaded = LoadedMarian(exact, done.path)
    never, usual = (
        [shown(text) for text in loaded.translate(lines, each)]
        for each in (search, dataclasses.replace(search, exact=False))
    )
    assert never == [*map(shown, own)] != usual


def test_an_export_is_verified_without_messages_of_the_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They would name the place in which the export is written before it is verified."""
    logging = transformers.utils.logging
    shows = logging.is_progress_bar_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        export(small_bundle({"norm": "pre"}), "huggingface", tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == shows


def test_the_search_settings_are_the_defaults_of_generate(tmp_path: Path) -> None:
    bundle = small_bundle()
    HUGGINGFACE.write(bundle, "float32", tmp_path)
    HUGGINGFACE.write_search(bundle, ForeignSearch(3, 0.5, 20), tmp_path)
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["length_penalty"]) == (3, 0.5)
    assert settings["max_length"] == 21 and [0] in settings["bad_words_ids"]


@pytest.mark.parametrize("separate", mostly_slow([False, True], [True]))
def test_import_and_export_give_the_same_files(tmp_path: Path, separate: bool) -> None:
    spms = tuple(marian.learned(TEXT[side] * 4, 40, "bpe") for side in ("source", "target"))
    if separate:
        vocabularies = [marian.marian_vocabulary(spm, more=["x"]) for spm in spms]
        sizes = [len(each) for each in vocabularies]
        assert sizes[0] == sizes[1]  # padding has one id
        config = marian.marian_config(sizes[0], sizes[1])
    else:
        vocabularies = [marian.marian_vocabulary(*spms)]
        config = marian.marian_config(len(vocabularies[0]))
    theirs = marian.half_trained(config, [], updates=0)
    first = marian.write_directory(tmp_path / "first", theirs, spms, vocabularies)
    bundle = read(first, "x").bundle
    done = export(bundle, "huggingface", tmp_path / "second")
    assert done.comparison is not None and done.comparison.largest_difference < 1e-4

    names = ["source.spm", "target.spm"]
    for name in names:
        assert (first / name).read_bytes() == (done.path / name).read_bytes()
    for name in ["vocab.json", "target_vocab.json"][: 1 + separate]:
        left, right = (json.loads((each / name).read_text()) for each in (first, done.path))
        assert left == right and list(left) == list(right)
    again = transformers.MarianMTModel.from_pretrained(done.path).state_dict()
    for name, weight in transformers.MarianMTModel.from_pretrained(first).state_dict().items():
        if "embed_positions" not in name:
            assert torch.equal(weight, again[name]), name
    left, right = (json.loads((each / "config.json").read_text()) for each in (first, done.path))
    # Positions are computed, and the end is not forced at the longest output.
    others = ("max_position_embeddings", "forced_eos_token_id", "torch_dtype")
    for key in right.keys() & left.keys() - {*others}:
        assert left[key] == right[key], key


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_other_tools_read_the_same_attention(norm: str, tmp_path: Path) -> None:
    """They draw the weights that transformers returns, as BertViz does."""
    translator = Translator(small_bundle({"norm": norm}))
    HUGGINGFACE.write(translator.bundle, "float32", tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    source, target = TEXT["source"][0], TEXT["target"][0]
    [(ids, given)] = translator.examples([source], [target])
    start = model.config.decoder_start_token_id
    found = model(
        input_ids=torch.tensor([[*ids, EOS]]), decoder_input_ids=torch.tensor([[start, *given]]),
        output_attentions=True,
    )  # fmt: skip
    for kind in ("cross", "encoder", "decoder"):
        text = None if kind == "encoder" else target
        own = attention_weights(translator, source, target=text, kind=kind)
        theirs = torch.stack([each[0] for each in found[f"{kind}_attentions"]])
        torch.testing.assert_close(theirs, own.weights, atol=1e-5, rtol=0)


def test_the_tokenizer_beside_it_is_enough_to_translate(tmp_path: Path) -> None:
    bundle = small_bundle(beam=2)
    HUGGINGFACE.write(bundle, "float32", tmp_path)
    HUGGINGFACE.write_search(bundle, ForeignSearch(2, 0.4, 20), tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    found = model.generate(**tokenizer(TEXT["source"][:3], return_tensors="pt", padding=True))
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    expected = LoadedMarian(bundle, tmp_path).translate(
        TEXT["source"][:3], ForeignSearch(2, 0.4, 20)
    )
    assert texts == [text.strip() for text in expected]
