import pytest

from crosshead.bundle.origin import ImportOrigin
from crosshead.config import validate
from crosshead.errors import ConfigError


def test_it_is_a_clause_of_a_card() -> None:
    origin = ImportOrigin(kind="huggingface", name="opus-mt-`en`-de", sha256="0" * 64)
    assert str(origin).startswith("`opus-mt-'en'-de`, a model of kind huggingface (SHA-256")


def test_a_checksum_has_64_digits() -> None:
    with pytest.raises(ConfigError, match="sha256"):
        validate(ImportOrigin, {"kind": "marian", "name": "x", "sha256": "12"})
