from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch

from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.loading import load
from crosshead.tasks.translation.engine import Engines, engines_of
from crosshead.tasks.translation.translator import Translator
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
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


@pytest.fixture(scope="module")
def several() -> Translator:
    """An untrained model of bytes with tags of two languages."""
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes", special=["<2de>", "<2fr>"]), ["a"])
    shape = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)
    plain = untrained(shape).bundle
    size = tokenizer.vocab_size
    config = plain.config.model_copy(
        update={"target_languages": ["de", "fr"], "source_vocabulary": size,
                "target_vocabulary": size}
    )  # fmt: skip
    torch.manual_seed(1)
    model = build_model(shape, size, size).eval()
    with torch.no_grad():
        model.projection.weight.mul_(4)
    return Translator(TextBundle(config, model, tokenizer, tokenizer))
