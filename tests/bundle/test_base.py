from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from crosshead.bundle.base import Bundle, ImportOrigin
from crosshead.bundle.config import BundleConfig
from crosshead.bundle.places import HubPlace
from crosshead.config import validate
from crosshead.errors import ConfigError
from crosshead.models.base import Model
from crosshead.tasks.registry import load_bundle
from tests.bundle.stored import STORED


@dataclass(frozen=True)
class Plain(Bundle):
    """A bundle without files and settings of its own."""

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        raise NotImplementedError


def test_a_bundle_without_files_of_its_own_needs_only_a_model() -> None:
    stored = load_bundle(STORED)
    plain = Plain(stored.config, stored.model)
    assert plain.files() == {} == Plain.read(Path("nowhere"), stored.config)
    assert plain.longest_input == 0 and plain.own_files == ()
    other = replace(plain)
    assert plain.why_not_averaged(other) == "" and plain.merged([other]) is stored.config


def test_a_bundle_says_how_its_model_is_built() -> None:
    stored = load_bundle(STORED)
    with pytest.raises(TypeError, match="abstract"):
        Bundle(stored.config, stored.model)  # type: ignore[abstract]


def test_it_is_a_clause_of_a_card() -> None:
    origin = ImportOrigin(kind="huggingface", name="opus-mt-`en`-de", sha256="0" * 64)
    assert str(origin).startswith("`opus-mt-'en'-de`, a model of kind huggingface (SHA-256")


def test_a_checksum_has_64_digits() -> None:
    with pytest.raises(ConfigError, match="sha256"):
        validate(ImportOrigin, {"kind": "marian", "name": "x", "sha256": "12"})


def test_a_place_on_a_hub_is_named_and_stored_only_if_there_is_one() -> None:
    origin = ImportOrigin(kind="marian", name="x", sha256="0" * 64)
    assert "hub" not in origin.model_dump() and "downloaded" not in str(origin)
    place = HubPlace(name="anna/en-de", commit="a" * 40)
    known = origin.model_copy(update={"hub": place})
    assert str(known) == f"{origin}, downloaded as `hf://anna/en-de@{'a' * 40}`"
    assert validate(ImportOrigin, known.model_dump()) == known
