"""Translators for tests: a trained one that is stored, and untrained ones."""

from collections.abc import Sequence
from pathlib import Path

import torch

from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.models.registry import AnyConfig, build_model
from crosshead.tasks.translation.translator import Translator
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

STORED = Path(__file__).parents[2] / "fixtures" / "bundle-format-1"


def untrained(shape: AnyConfig, special: Sequence[str] = ()) -> Translator:
    """One of bytes and special pieces that says anything."""
    torch.manual_seed(1)
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes", special=list(special)), ["a"])
    size = tokenizer.vocab_size
    config = TextBundleConfig(
        model=shape, joint_tokenizer=True, source_vocabulary=size, target_vocabulary=size,
        longest_source=40,
    )  # fmt: skip
    model = build_model(shape, size, size).eval()
    with torch.no_grad():
        model.projection.weight.mul_(4)  # bolder, so that neighbours in probability are no ties
    return Translator(TextBundle(config, model, tokenizer, tokenizer))
