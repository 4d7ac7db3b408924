from collections.abc import Callable
from importlib.util import find_spec

import pytest

from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.loading import load
from crosshead.tasks.translation.engine import Engines, engines_of
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.translators import STORED, untrained

NEEDS_EXPORT = pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs `export`")


@pytest.fixture(
    scope="session", params=["crosshead", pytest.param("ctranslate2", marks=NEEDS_EXPORT)]
)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Both engines: a test that uses this, or a server, runs with each."""
    return str(request.param)


@pytest.fixture(scope="session")
def engines(engine_name: str) -> Callable[[Translator], Engines]:
    return engines_of(engine_name, None, 1)


@pytest.fixture(scope="session")
def translator() -> Translator:
    return load(STORED, "cpu")


@pytest.fixture(scope="session")
def random_translator() -> Translator:
    """An untrained model that has learned positions and says anything."""
    return untrained(
        TransformerConfig(
            encoder_layers=1,
            decoder_layers=1,
            d_model=8,
            d_ff=8,
            heads=2,
            positions="learned",
            max_length=24,
        )
    )
