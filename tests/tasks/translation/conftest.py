import pytest

from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.loading import load
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.translators import STORED, untrained


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
