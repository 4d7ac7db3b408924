import re
from html import unescape
from pathlib import Path

import pytest
import torch
from matplotlib import rc_context

from crosshead.errors import ConfigError
from crosshead.inspection import draw_model
from crosshead.models.base import Model
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from crosshead.models.transformer import Transformer, TransformerConfig


def said(model: Model, tmp_path: Path) -> list[str]:
    """All lines of a picture, from below."""
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        draw_model(model, path=tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    found = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", picture)
    return [unescape(text).strip() for text in found]


def test_both_towers_are_drawn_with_the_sizes_of_the_model(tmp_path: Path) -> None:
    config = TransformerConfig(
        encoder_layers=4, decoder_layers=2, d_model=128, heads=4, d_ff=256, tie="two-way"
    )
    found = said(Transformer(config, 1200, 900), tmp_path)
    assert {"Embedding", "1,200 × 128", "900 × 128", "4 ×", "2 ×", "128 → 900"} < set(found)
    assert found.count("4 heads, d_k 32, d_v 32") == 3
    assert found.count("128 → 256 → 128, relu") == 2
    assert found.count("Add & norm") == 5 and "Norm" not in found
    assert found.count("sinusoidal") == 2
    assert any("one matrix for target embeddings, projection" in text for text in found)


def test_one_tower_is_drawn_with_its_norms_and_its_mask(tmp_path: Path) -> None:
    size = {"layers": 3, "d_model": 16, "heads": 2, "d_ff": 32}
    language = said(TransformerLanguageModel(LanguageConfig(**size), 50), tmp_path)
    assert language.count("Norm") == 3 and language.count("Add") == 2
    assert {"Masked multi-head attention", "rotary positions", "3 ×"} < set(language)
    assert not any("one matrix" in text for text in language)
    encoder = said(TransformerEncoder(EncoderConfig(**size, positions="learned"), 50), tmp_path)
    assert {"Multi-head attention", "learned", "probabilities of the masked piece"} < set(encoder)


def test_other_architectures_have_no_picture() -> None:
    with torch.device("meta"):
        model = Recurrent(RecurrentConfig(), 50, 50)
    with pytest.raises(ConfigError, match="architecture recurrent has no picture; choose"):
        draw_model(model)
