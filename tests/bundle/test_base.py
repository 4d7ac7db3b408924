from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from crosshead.bundle.base import Bundle, BundleConfig
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
