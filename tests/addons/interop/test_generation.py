"""The search settings of Hugging Face are those of the model, and no others."""

import json
from pathlib import Path

import pytest

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.generation import (
    GENERATION,
    beam_arguments,
    control,
    forbidden_ids,
    search_arguments,
    write_generation,
)
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
