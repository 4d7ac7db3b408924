"""The length penalty that travels is the usual one, unless another is clearly better."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.addons.interop import search_settings
from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.formats import format_of
from crosshead.addons.interop.search_settings import (
    PENALTIES,
    check_references,
    choose_search,
    usual_search,
)
from crosshead.errors import ConfigError
from crosshead.text.batching import Example
from tests.addons.interop.small_bundles import small_bundle

SENTENCES = [f"sentence {n} has some more words than four" for n in range(200)]
SOURCES = [f"source {n}" for n in range(200)]
WRONG = [f"{text} and more" for text in SENTENCES]


@pytest.fixture(autouse=True)
def _fluent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let crosshead translate into whole sentences, which have a BLEU."""
    monkeypatch.setattr(search_settings, "Translator", lambda bundle: lambda lines: SENTENCES)


class Library:
    """A library whose translations with each exponent are known."""

    computes = ""

    def __init__(self, texts: dict[float, list[str]]) -> None:
        self.texts = texts
        self.tried: list[float] = []

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        self.tried.append(search.length_penalty)
        return self.texts.get(search.length_penalty, ["nothing like it"] * len(lines))

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        raise AssertionError("no log-probabilities are needed")

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        raise AssertionError("no tokens are needed")

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        raise AssertionError("no tokens are needed")


def right(lines: int) -> list[str]:
    """Translations, of which some are those of crosshead."""
    return [*SENTENCES[:lines], *WRONG[lines:]]


NAMES = {
    "beam": ("beam_size", "num_beams"),
    "length_penalty": ("length_penalty",),
    "sample": ("do_sample",),
    "temperature": ("sampling_temperature", "temperature"),
    "top_k": ("sampling_topk", "top_k"),
    "top_p": ("sampling_topp", "top_p"),
}


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("transformer", "ctranslate2"),
        ("transformer", "huggingface"),
        ("transformer", "onnx"),
        ("language", "ctranslate2"),
        ("language", "huggingface"),
    ],
)
def test_the_stored_search_is_the_intended_one(
    architecture: str, name: str, tmp_path: Path
) -> None:
    bundle = small_bundle({"architecture": architecture, "norm": "pre"}, {"kind": "bpe"})
    kinds = [ForeignSearch(1, 0.0, 20), ForeignSearch(4, 0.5, 20)]
    if architecture == "language":
        kinds.append(ForeignSearch(1, 0.0, 20, sample=True, temperature=0.7, top_k=0, top_p=0.9))
    for search in kinds:
        format_of(bundle, name).write_search(bundle, search, tmp_path)
        [file] = tmp_path.iterdir()
        stored = json.loads(file.read_text())
        needed = {"temperature", "top_k", "top_p"} if search.sample else {"beam"}
        for key, names in NAMES.items():
            found = [stored[each] for each in names if each in stored]
            assert all(each == getattr(search, key) for each in found)
            assert found or key not in needed
        counted = "decoder_start_token_id" in stored  # transformers counts the start token
        length = stored.get("max_length", stored.get("max_decoding_length"))
        assert length == 20 + counted
        assert ("length_penalty" in stored) >= (search.beam > 1)


def test_the_exponent_with_clearly_more_identical_translations_is_chosen() -> None:
    """BLEU does not choose: other sentences have the same score here."""
    bundle = small_bundle(beam=2)
    shuffled = [*SENTENCES[1:], SENTENCES[0]]
    library = Library({0.2: shuffled, 0.48: right(100), 0.6: right(109), 0.8: right(110)})
    chosen = choose_search(bundle, library, SOURCES, shuffled)
    assert library.tried == [0.48, *PENALTIES]
    assert (chosen.search.length_penalty, chosen.identical) == (0.8, 110)
    assert chosen.own_bleu is not None and chosen.foreign_bleu is not None
    assert chosen.foreign_bleu < chosen.own_bleu < 100
    assert "110 of 200 validation lines as by crosshead, BLEU " in str(chosen)


@pytest.mark.parametrize(("lines", "more"), [(200, 5), (150, 4), (149, 3), (20, 3)])
def test_few_lines_decide_nothing(lines: int, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exponent must have more than 2 % of the lines more, and at least three."""
    bundle, own = small_bundle(beam=2), SENTENCES[:lines]
    monkeypatch.setattr(search_settings, "Translator", lambda bundle: lambda sources: own)

    def tried(gain: int) -> float:
        texts = {0.48: right(10)[:lines], 1.0: right(10 + gain)[:lines]}
        chosen = choose_search(bundle, Library(texts), SOURCES[:lines], own)
        return chosen.search.length_penalty

    assert (tried(more - 1), tried(more)) == (0.48, 1.0)


def test_of_equal_exponents_the_nearest_to_the_estimate_is_taken() -> None:
    bundle = small_bundle(beam=2)  # its estimate is 0.48
    library = Library(dict.fromkeys((0.0, 0.6, 1.0), SENTENCES))
    chosen = choose_search(bundle, library, SOURCES, SENTENCES)
    assert (chosen.search.length_penalty, chosen.identical) == (0.6, 200)


@pytest.mark.parametrize(("stop", "exact"), [("exact", True), ("last", False), ("full", False)])
def test_the_exact_rule_travels_with_every_exponent(stop: str, exact: bool) -> None:
    bundle = small_bundle(beam=2)
    decode = bundle.config.decode.model_copy(update={"stop": stop})
    changed = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    assert usual_search(changed).exact is exact
    chosen = choose_search(changed, Library({1.0: SENTENCES}), SOURCES, SENTENCES)
    assert (chosen.search.length_penalty, chosen.search.exact) == (1.0, exact)


def test_greedy_search_has_nothing_to_choose() -> None:
    bundle = small_bundle(beam=1)
    library = Library({0.48: SENTENCES})
    chosen = choose_search(bundle, library, SOURCES, SENTENCES)
    assert library.tried == [0.48] and chosen.foreign_bleu == pytest.approx(100)
    assert str(chosen).startswith("greedy search; 200 of 200 validation lines")


def test_an_imported_penalty_travels_unchanged() -> None:
    bundle = small_bundle(beam=4)
    decode = bundle.config.decode.model_copy(update={"length_penalty": 0.625, "length_offset": 0.0})
    imported = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    assert usual_search(imported).length_penalty == 0.625
    library = Library({0.625: SENTENCES})
    chosen = choose_search(imported, library, SOURCES, SENTENCES)
    assert library.tried == [0.625] and chosen.search.length_penalty == 0.625


@pytest.mark.parametrize("k", [5.0, 20.0])
def test_without_validation_data_the_penalties_have_one_slope_at_the_usual_length(k: float) -> None:
    bundle = small_bundle(beam=3)
    decode = bundle.config.decode.model_copy(update={"length_offset": k})
    changed = replace(bundle, config=bundle.config.model_copy(update={"decode": decode}))
    search = usual_search(changed)
    # The derivative of log ((k + n) / (k + 1))^0.6 by log n at n = 20 is 0.6 * 20 / (k + 20).
    assert search.length_penalty == pytest.approx(0.6 * 20 / (k + 20))
    assert (search.beam, search.max_length) == (3, 41)


def test_translations_are_for_translation_models() -> None:
    check_references(small_bundle(), ["a"])
    check_references(small_bundle({"architecture": "language"}), None)
    with pytest.raises(ConfigError, match="--valid-target is for translation models"):
        check_references(small_bundle({"architecture": "language"}), ["a"])
