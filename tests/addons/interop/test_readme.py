"""A README says what is known about a model and how it is used, and claims nothing else."""

import dataclasses

import pytest
import yaml

from crosshead.addons.interop.formats import FORMATS
from crosshead.addons.interop.readme import about, readme
from crosshead.addons.interop.verify import Comparison
from crosshead.bundle.base import ImportOrigin
from crosshead.bundle.text_bundle import TextBundle
from tests.addons.interop.small_bundles import small_bundle

FOUND = Comparison(40, True, 900, 1e-6, 1e-7, 0, 36, 1, 4)
ORIGIN = ImportOrigin(kind="huggingface", name="opus", sha256="0" * 64)


def changed(**values: object) -> TextBundle:
    bundle = small_bundle()
    return dataclasses.replace(bundle, config=bundle.config.model_copy(update=values))


def test_licence_and_origin_are_said_if_they_are_known() -> None:
    said = about(changed(license="cc-by-4.0", origin=ORIGIN))
    assert said.endswith("Licence: `cc-by-4.0`.") and "imported from `opus`" in said
    assert "icence" not in about(small_bundle()) and "imported" not in about(small_bundle())


@pytest.mark.parametrize("name", ["ctranslate2", "huggingface", "onnx"])
def test_hubs_find_licence_and_library(name: str) -> None:
    form = FORMATS[name]
    text = readme(changed(license="cc-by-4.0"), form, "en-de", "float32", FOUND)
    front = yaml.safe_load(text.split("---\n")[1])
    assert (front["license"], front["language"]) == ("cc-by-4.0", ["en", "de"])
    assert front["library_name"] == form.library
    assert form.usage(small_bundle(), "en-de") in text
    assert "identical translations 97.2% (35 of 36)." in text
    plain = readme(small_bundle(), form, "en-de", "int8", None)
    assert "icence" not in plain and "license" not in plain and "Compared" not in plain


def test_an_odd_name_stays_a_string_of_the_program() -> None:
    text = readme(small_bundle(), FORMATS["ctranslate2"], 'a"b\\c', "float32", None)
    assert r'directory = Path("a\"b\\c")' in text
