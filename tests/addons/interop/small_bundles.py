"""Small random bundles of translation and language models with any option, to export them."""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from crosshead.addons.interop.verify import free_specials
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.decoding.search import greedy_search
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.base import TokenModelConfig
from crosshead.models.registry import CONFIGS
from crosshead.models.transformer import Transformer
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer, JsonTokenizer
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS
from tests.addons.interop.byte_level import END, byte_level
from tests.addons.interop.sentencepieces import learned, marian_vocabulary

TEXT = {
    "source": ["a dog runs over the green grass", "two men sit on a bench", "the dog sleeps"] * 5,
    "target": ["ein Hund rennt im Gras", "zwei Männer sitzen", "der Hund schläft"] * 5,
}
SMALL = {
    "transformer": {
        "encoder_layers": 2,
        "decoder_layers": 3,
        "d_model": 16,
        "d_ff": 24,
        "heads": 4,
    },
    "language": {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4},
    "encoder": {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4},
    "transformer-xl": {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 4},
    "recurrent": {"d_model": 16},
    "convolutional": {"d_model": 16},
}


def imported_tokenizer(
    lines: list[str],
    special: tuple[str, ...] = (),
    padding: bool = True,
) -> ImportedTokenizer:
    """A tokenizer as imports have it: its vocabulary has other ids than its SentencePiece model."""
    pieces = list(marian_vocabulary(model := learned(lines, 60), more=["<s>", *special]))
    pad = pieces.index("<pad>") if padding else None
    control = (pad, pieces.index("<s>"), pieces.index("</s>"), pieces.index("<unk>"))
    if not padding:
        pieces.remove("<pad>")
    return ImportedTokenizer(model, ForeignVocabulary(tuple(pieces), control))


def byte_level_tokenizer(lines: list[str], pieces: int = 300) -> JsonTokenizer:
    """GPT-2's kind of tokenizer as imports have it."""
    found = byte_level(lines, pieces)
    size = found.get_vocab_size()
    return JsonTokenizer(found.to_str().encode(), size, (None, None, found.token_to_id(END), None))


@cache
def _tokenizers(
    kind: str,
    joint: bool,
    special: tuple[str, ...],
    padding: bool,
) -> tuple[Tokenizer, Tokenizer]:
    if kind == "tokenizer-json":
        both = byte_level_tokenizer([*TEXT["source"], *TEXT["target"]])
        return both, both
    if kind == "sentencepiece":
        both = imported_tokenizer([*TEXT["source"], *TEXT["target"]], special, padding)
        return both, both
    size = {"bpe": 300, "unigram": 290}.get(kind)
    config = TokenizerConfig(kind=kind, vocab_size=size, special=list(special))
    if joint:
        both = train_tokenizer(config, [*TEXT["source"], *TEXT["target"]])
        return both, both
    return train_tokenizer(config, TEXT["source"]), train_tokenizer(config, TEXT["target"])


def small_bundle(
    model: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    *,
    languages: bool = False,
    beam: int = 1,
    seed: int = 0,
    ends: bool = True,
    codes: bool = True,
) -> TextBundle:
    """A bundle with random weights, biases and norms included; half of its translations end.

    It is a copy of a bundle that is built once, because many tests want the same one.
    """
    settings = json.dumps([model or {}, tokenizer or {}])
    built = _built(settings, languages, beam, seed, ends, codes)
    torch.manual_seed(seed)
    bundle = replace(
        built, config=built.config.model_copy(), model=deepcopy(built.model).requires_grad_(False)
    )
    # A model with random weights writes any bytes, and the libraries let it.
    vars(bundle)["specials"] = free_specials(bundle)
    return bundle


@cache
def _built(
    settings_and_tokenizer: str, languages: bool, beam: int, seed: int, ends: bool, codes: bool
) -> TextBundle:
    model, tokenizer = json.loads(settings_and_tokenizer)
    torch.manual_seed(seed)
    settings = {"architecture": "transformer", **model}
    name = settings["architecture"]
    config = CONFIGS[name].model_validate({**SMALL[name], **settings})
    assert isinstance(config, TokenModelConfig)
    usual = {"kind": "bpe", "joint": True, "special": (), "padding": True}
    wanted = {**usual, **tokenizer}
    source, target = _tokenizers(**{**wanted, "special": tuple(wanted["special"])})
    bundle_config = TextBundleConfig(
        task=config.task,
        model=config,
        joint_tokenizer=wanted["joint"],
        source_vocabulary=source.vocab_size,
        target_vocabulary=target.vocab_size,
        longest_source=30,
        decode=DecodeConfig(beam=beam, max_extra=10),
        target_languages=["de", "fr"] if languages else [],
        source_language="en" if codes else None,
        target_language="de" if codes and not languages else None,
    )
    built = TextBundle.build(bundle_config).eval().requires_grad_(False)
    for parameter_name, parameter in built.named_parameters():
        if parameter.dim() == 1 or "score" in parameter_name:
            parameter.add_(0.3 * torch.randn_like(parameter))
    bundle = TextBundle(bundle_config, built, source, target)
    if isinstance(built, Transformer) and ends:
        _let_it_end(bundle)
    return bundle


def _let_it_end(bundle: TextBundle) -> None:
    """Turn the output row of the end towards the mean hidden state, until half of all lines end."""
    model = bundle.model
    assert isinstance(model, Transformer)
    norm = model.decoder.norm
    if not isinstance(norm, nn.LayerNorm):
        norm = model.decoder.layers[-1].add_norm_feedforward.norm
    towards = norm.bias / norm.bias.square().sum()
    sources = nn.utils.rnn.pad_sequence(
        [
            4 + torch.arange(7 * i, 4 + 9 * i) % (bundle.config.source_vocabulary - 4)
            for i in range(6)
        ],
        batch_first=True,
    )
    for strength in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0):
        model.projection.weight[EOS] = strength * towards
        found = greedy_search(model, sources, torch.full((6,), 20), bundle.specials, 0.0)
        if sum(each.finished for [each] in found) >= 3:
            return


def shown(text: str) -> str:
    """A text without what libraries show differently: outer spaces, and bytes that are no text."""
    return re.sub("\ufffd+", "\ufffd", text).strip()
