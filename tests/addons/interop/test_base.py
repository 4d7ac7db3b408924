"""What a format accepts and refuses is found in bundles."""

import dataclasses

import pytest

from crosshead.addons.interop.base import ForeignSearch, about, named_languages
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, CTRANSLATE2_LANGUAGE
from crosshead.addons.interop.formats import FORMATS
from crosshead.bundle.origin import ImportOrigin
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS
from tests.addons.interop.cells import without_weights
from tests.addons.interop.small_bundles import small_bundle

ORIGIN = ImportOrigin(kind="huggingface", name="opus", sha256="0" * 64)


def test_every_export_has_the_name_of_its_format() -> None:
    for name, form in FORMATS.items():
        assert form.name == name and (form.exports or form.read)
        for each in form.exports:
            assert each.name == name and "float32" in each.types


@pytest.mark.parametrize("architecture", [each for each in CONFIGS if each != "transformer"])
def test_an_architecture_is_the_only_refusal(architecture: str) -> None:
    found = CTRANSLATE2.refusals(without_weights(architecture, CONFIGS))
    assert found == [f"model.architecture = {architecture} (only transformer)"]


@pytest.mark.parametrize("key", ["score", "positions"])
def test_a_registered_value_is_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = small_bundle(ends=False)
    config = bundle.config.model.model_copy(update={key: "mine"})
    monkeypatch.setitem(bundle.config.__dict__, "model", config)
    [refused] = CTRANSLATE2.refusals(bundle)
    assert refused.startswith(f"model.{key} = mine (only ")


def test_a_translation_model_that_samples_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for bundle in (small_bundle(ends=False), small_bundle({"architecture": "language"})):
        decode = bundle.config.decode.model_copy(update={"sample": True})
        monkeypatch.setitem(bundle.config.__dict__, "decode", decode)
        is_language = bundle.config.model.architecture == "language"
        form = CTRANSLATE2_LANGUAGE if is_language else CTRANSLATE2
        refused = [] if is_language else ["decode.sample = true (only false)"]
        assert form.refusals(bundle) == refused


def test_a_tag_of_an_imported_vocabulary_is_a_target_language() -> None:
    bundle = small_bundle({}, {"kind": "sentencepiece", "special": [">>fra<<"]}, ends=False)
    [argos] = FORMATS["argos"].exports
    [refused] = argos.refusals(bundle)
    assert refused.startswith("several target languages (")


def test_licence_and_origin_are_said_if_they_are_known() -> None:
    bundle = small_bundle()
    config = bundle.config.model_copy(update={"license": "cc-by-4.0", "origin": ORIGIN})
    said = about(dataclasses.replace(bundle, config=config))
    assert said.endswith("Licence: `cc-by-4.0`.") and "imported from `opus`" in said
    assert "icence" not in about(bundle) and "imported" not in about(bundle)


def test_a_search_is_described() -> None:
    assert str(ForeignSearch(1, 0.5, 20)) == "greedy search"
    assert str(ForeignSearch(4, 0.5, 20)) == "beam 4, length penalty 0.5 (length^p)"
    sampled = ForeignSearch(1, 0.0, 20, sample=True, top_k=7)
    assert str(sampled) == "samples, temperature 1, top-k 7, top-p 1"


@pytest.mark.parametrize("code", ["English", "", "e n"])
def test_what_is_no_code_is_refused(code: str) -> None:
    assert named_languages("en", None) == {"source_language": "en"}
    with pytest.raises(ConfigError, match="--target-language: expected a language code such as en"):
        named_languages("en", code)
