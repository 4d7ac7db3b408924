"""The search settings of Hugging Face are those of the model, and no others."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import transformers

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.generation import (
    GENERATION,
    beam_arguments,
    control,
    forbidden_ids,
    search_arguments,
    search_settings,
    stored_search,
    write_generation,
)
from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.decoding.settings import DecodeConfig
from tests.addons.interop.imports.wrong_values import WRONG
from tests.addons.interop.small_bundles import small_bundle


def test_greedy_search_has_no_settings_of_a_beam() -> None:
    """Transformers warns of settings that its search does not use."""
    assert search_arguments(ForeignSearch(1, 0.5, 20)) == {"num_beams": 1, "max_length": 21}


@pytest.mark.parametrize("exact", [True, False])
def test_a_search_that_never_stops_early_says_so(exact: bool) -> None:
    found = beam_arguments(ForeignSearch(3, 0.5, 20, exact=exact))
    stop = "never" if exact else False
    assert found == {"num_beams": 3, "length_penalty": 0.5, "early_stopping": stop}


def test_ids_are_those_of_the_export(tmp_path: Path) -> None:
    bundle = small_bundle({}, {"kind": "sentencepiece"})
    rows = bundle.target_tokenizer.vocabulary.rows  # type: ignore[attr-defined]
    assert [rows[0]] in forbidden_ids(bundle)
    assert control(rows, 1)["decoder_start_token_id"] == rows[1]
    write_generation(control(rows, 1), tmp_path)
    assert json.loads((tmp_path / GENERATION).read_text())["eos_token_id"] == rows[2]


IDS = {"pad_token_id": 9, "eos_token_id": 0, "decoder_start_token_id": 9}
FORBIDDEN = (9, None, 1)


def settings_of(
    stored: Mapping[str, Any], *, may_sample: bool = False
) -> tuple[DecodeConfig, list[str]]:
    return search_settings(stored, IDS, FORBIDDEN, Path("x"), may_sample=may_sample)


def test_the_search_comes_along() -> None:
    decode, notes = settings_of({"num_beams": 3, "length_penalty": 0.5})
    assert (decode.beam, decode.length_penalty, decode.length_offset) == (3, 0.5, 0)
    assert (decode.stop, decode.min_length, notes) == ("last", 0, [])
    assert settings_of({"min_new_tokens": 2})[0].min_length == 2
    for stored in ({}, {"num_beams": None, "length_penalty": None}):
        decode, _ = settings_of(stored)
        assert (decode.beam, decode.length_penalty, decode.length_offset) == (1, 1, 0)


def test_sampling_comes_along_for_a_language_model() -> None:
    stored = {"do_sample": True, "top_p": 0.9, "typical_p": 0.5, "num_beams": 1}
    decode, notes = settings_of(stored, may_sample=True)
    assert (decode.sample, decode.temperature, decode.top_k, decode.top_p) == (True, 1, 50, 0.9)
    assert notes == ["the search setting typical_p = 0.5 does not come along"]
    assert "num_beams = 4" in settings_of({**stored, "num_beams": 4}, may_sample=True)[1][1]
    assert settings_of(stored)[1] == ["the search setting do_sample = True does not come along"]


@pytest.mark.parametrize(
    "stored",
    [
        {"bad_words_ids": [[9], [7]]},
        {"bad_words_ids": [[9, 1]]},
        {"begin_suppress_tokens": [4]},
        {"diversity_penalty": 0.5},
        {"encoder_no_repeat_ngram_size": 2},
        {"forced_eos_token_id": 5},
        {"guidance_scale": 0},
        {"max_length": 512},
        {"max_new_tokens": 20},
        {"min_length": 5},
        {"renormalize_logits": True},
        {"sequence_bias": [[[4], 1.0]]},
    ],
)
def test_a_setting_that_changes_the_output_is_named(stored: dict[str, Any]) -> None:
    [note] = settings_of(stored)[1]
    assert note.startswith(f"the search setting {next(iter(stored))} = ")


@pytest.mark.parametrize(
    ("key", "value"), [("decoder_start_token_id", 3), ("eos_token_id", [0, 5]), ("eos_token_id", 5)]
)
def test_other_tokens_at_the_ends_of_an_output_are_refused(key: str, value: object) -> None:
    with pytest.raises(ForeignModelError, match=f"x: {key} is .*, but the model has {IDS[key]}"):
        settings_of({key: value})
    assert settings_of({key: [IDS[key]]})[1] == []


@pytest.mark.parametrize(
    "stored",
    [
        {**IDS, "forced_eos_token_id": 0, "bos_token_id": 4},
        {"bad_words_ids": [[9], [1]], "suppress_tokens": [9], "begin_suppress_tokens": []},
        {"max_length": None, "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1},
        {"repetition_penalty": 1.0, "renormalize_logits": False, "sequence_bias": {}},
        {"use_cache": False, "output_scores": True, "temperature": 0.3, "top_k": 4},
    ],
)
def test_a_setting_that_changes_nothing_is_not_named(stored: dict[str, Any]) -> None:
    assert settings_of(stored)[1] == []


def test_config_json_holds_search_settings_only_without_the_other_file(tmp_path: Path) -> None:
    """As transformers has it: one of the two files, not a mixture."""
    directory, config = ForeignDirectory(tmp_path), {"num_beams": 6, "d_model": 4}
    found, where = stored_search(directory, config, tmp_path / "config.json")
    assert (found["num_beams"], where) == (6, tmp_path / "config.json")
    (tmp_path / "generation_config.json").write_text(json.dumps({"length_penalty": 0.5}))
    assert transformers.GenerationConfig.from_pretrained(tmp_path).num_beams is None
    found, where = stored_search(directory, config, tmp_path / "config.json")
    assert where.name == "generation_config.json" and "num_beams" not in found
    assert found["length_penalty"] == 0.5


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ForeignModelError, match="x: num_beams: expected a whole number"):
        settings_of({"num_beams": "many"})


@pytest.mark.parametrize("may_sample", [False, True])
def test_a_value_of_a_wrong_type_is_refused_or_noted(may_sample: bool) -> None:
    for key in transformers.GenerationConfig().to_dict():
        for value in WRONG:
            with contextlib.suppress(ForeignModelError):
                settings_of({"do_sample": may_sample, key: value}, may_sample=may_sample)
    assert "early_stopping = [1]" in settings_of({"early_stopping": [1]})[1][0]


@pytest.mark.parametrize(
    ("stored", "extra"),
    [
        ({"max_length": 82}, 50),
        ({"max_length": 32}, 0),
        ({"max_new_tokens": 82}, 51),
        ({"max_length": 1032}, 1000),
    ],
)
def test_the_longest_source_has_the_output_limit_of_transformers(
    stored: dict[str, int], extra: int
) -> None:
    """The start token counts in `max_length`, and the end in both limits."""
    decode, notes = search_settings(stored, IDS, FORBIDDEN, Path("x"), longest_source=30)
    assert decode.max_extra == extra and notes == []


@pytest.mark.parametrize(
    "stored",
    [{"max_length": 31}, {"max_length": 1033}, {"max_length": 82, "max_new_tokens": 60}],
)
def test_an_output_limit_that_does_not_come_along_is_named(stored: dict[str, int]) -> None:
    decode, notes = search_settings(stored, IDS, FORBIDDEN, Path("x"), longest_source=30)
    assert decode.max_extra == DecodeConfig().max_extra and len(notes) == len(stored)
    assert len(settings_of({"max_length": 512})[1]) == 1
