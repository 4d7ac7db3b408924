"""A user may name languages that a bundle does not say, and no others."""

import pytest

from crosshead.addons.interop.languages import with_languages
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import PYTHON, calling_from
from crosshead.errors import ConfigError
from tests.addons.interop.small_bundles import small_bundle


def test_named_languages_are_those_of_the_bundle() -> None:
    found = with_languages(small_bundle(codes=False), "en", "pt_BR")
    assert isinstance(found, TextBundle)
    assert (found.config.source_language, found.config.target_language) == ("en", "pt-BR")
    bundle = small_bundle()
    assert with_languages(bundle, None, None) is bundle
    again = with_languages(bundle, "en", None)
    assert isinstance(again, TextBundle) and again.config == bundle.config


def test_other_languages_are_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        with_languages(small_bundle(), "en", "fr")
    assert str(refusal.value) == (
        "--target-language fr: the bundle says de; leave --target-language out"
    )
    several = small_bundle({}, {"special": ["<2de>", "<2fr>"]}, languages=True)
    with pytest.raises(ConfigError, match="--target-language de: the bundle says de, fr; leave"):
        with_languages(several, None, "de")
    with pytest.raises(ConfigError, match="--source-language English: expected a language code"):
        with_languages(small_bundle(codes=False), "English", None)
    language = small_bundle({"architecture": "language"})
    with (
        calling_from(PYTHON),
        pytest.raises(ConfigError, match="source_language='en': only translation models have"),
    ):
        with_languages(language, "en", None)
