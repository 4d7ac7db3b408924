"""Imports of translation models in Hugging Face's form: Marian, and Pegasus with its tokenizer.

`MarianMTModel` and `PegasusForConditionalGeneration` load such directories. Pegasus is pre-norm,
with a norm at the end of each stack; otherwise both compute the same. Exports of crosshead are
Pegasus if the model is pre-norm, with the tokenizer files of Marian.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.generation import search_settings, stored_search
from crosshead.addons.interop.imports.reading import (
    AGAIN,
    MIXED,
    ForeignDirectory,
    ForeignModelError,
)
from crosshead.addons.interop.imports.values import (
    ForeignSettings,
    checked,
    ordered,
    sinusoids,
    translation_bundle,
    vocabulary,
)
from crosshead.addons.interop.weights import (
    ACTIVATIONS,
    EMBEDDINGS,
    LOGITS_BIAS,
    OUTPUT,
    SHARED,
    TABLES,
    bart_matrices,
    bart_places,
)
from crosshead.bundle.origin import ImportOrigin
from crosshead.config import MOST_POSITIONS, OneOf, shown
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary, is_line_break
from crosshead.text.parallel.languages import language_code

KIND = "huggingface"
"""The kind of these models."""

MARIAN, PEGASUS = "marian", "pegasus"
"""The values of `model_type` that `read` takes."""

CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"

NORM_EPS = 1e-5
"""The epsilon of layer norms, which is fixed in Hugging Face's Marian."""

Activation = Annotated[str, OneOf(ACTIVATIONS)]
"""The name of an activation in transformers."""


class HuggingFaceSettings(ForeignSettings):
    """The settings in `config.json` that all models have."""

    vocab_size: int
    tie_word_embeddings: bool | None = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    quantization_config: dict[str, Any] | None = None

    @field_validator("quantization_config")
    @classmethod
    def _no_quantization(cls, found: dict[str, Any] | None) -> dict[str, Any] | None:
        if found:
            raise ValueError("the weights are quantized; give the model before quantization")
        return found


class _Settings(HuggingFaceSettings):
    """The settings of a Marian or a Pegasus in `config.json`."""

    model_type: str = MARIAN
    decoder_vocab_size: int | None = None
    decoder_start_token_id: int | None = None
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    activation_function: Activation = "gelu"
    dropout: float | None = 0.1
    attention_dropout: float | None = 0.0
    activation_dropout: float | None = 0.0
    max_position_embeddings: int = Field(ge=2, le=MOST_POSITIONS)
    scale_embedding: Literal[True] = Field(False, validate_default=True)
    share_encoder_decoder_embeddings: bool | None = True

    @property
    def is_pegasus(self) -> bool:
        """True if the model is a Pegasus, whose norms come before the sublayers."""
        return self.model_type == PEGASUS

    @property
    def has_one_matrix(self) -> bool:
        """True if source and target share a matrix, as those of every Pegasus do."""
        return self.is_pegasus or bool(self.share_encoder_decoder_embeddings)

    @model_validator(mode="after")
    def _check(self) -> "_Settings":
        if self.is_pegasus and not self.tie_word_embeddings:
            raise ValueError("tie_word_embeddings: expected true for a Pegasus")
        for key in ("attention_heads", "ffn_dim"):
            encoder, decoder = getattr(self, f"encoder_{key}"), getattr(self, f"decoder_{key}")
            if encoder != decoder:
                raise ValueError(
                    f"encoder_{key} is {encoder}, but decoder_{key} is {decoder}; crosshead has "
                    "one for both"
                )
        return self


class _Tokenizer(ForeignSettings):
    """The settings in `tokenizer_config.json`."""

    separate_vocabs: bool | None = False
    model_max_length: Any = None
    eos_token: Any = "</s>"
    source_lang: Any = None
    target_lang: Any = None


def read(path: Path, name: str) -> Imported:
    """Return the translation model of a directory as a bundle."""
    directory = ForeignDirectory(path)
    stated, where = directory.json(CONFIG), path / CONFIG
    settings = checked(_Settings, stated, where)
    options = directory.json(TOKENIZER) if directory.has(TOKENIZER) else {}
    if settings.is_pegasus and not directory.has(SOURCE_SPM):
        raise ForeignModelError(
            f"{path}: a Pegasus with the tokenizer {shown(options.get('tokenizer_class'))}, "
            f"expected that of Marian with {SOURCE_SPM}, {TARGET_SPM} and {VOCAB}"
        )
    tokenizer = checked(_Tokenizer, options, path / TOKENIZER)
    vocabularies = _vocabularies(directory, settings, tokenizer)
    file, weights = stored_weights(directory)
    positions = _positions(weights, settings.d_model, where)
    config = _shape(settings, where, positions)
    stored, place = stored_search(directory, stated, where)
    pieces, (pad, begin, _, unknown) = vocabularies[1].pieces, vocabularies[1].control
    breaks = [row for row, piece in enumerate(pieces) if is_line_break(piece)]
    longest = _longest_source(settings, tokenizer)
    decode, notes = search_settings(
        stored, stated, (pad, begin, unknown, *breaks), place, longest_source=longest
    )
    bundle = translation_bundle(
        config,
        (directory.bytes(SOURCE_SPM), directory.bytes(TARGET_SPM)),
        vocabularies,
        partial(bart_places, config),
        _named(config, weights, path / file),
        path / file,
        languages=(_language(tokenizer.source_lang), _language(tokenizer.target_lang)),
        longest_source=longest,
        decode=decode,
        origin=ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(file)),
    )
    return Imported(bundle, notes)


def stored_weights(directory: ForeignDirectory) -> tuple[str, dict[str, Tensor]]:
    """Return the name of the file of weights in a directory, and the weights."""
    file = SAFE if directory.has(SAFE) else PICKLED
    if not directory.has(file):
        raise ForeignModelError(f"{directory.path}: has neither {SAFE} nor {PICKLED}; {AGAIN}")
    return file, directory.safetensors(file) if file == SAFE else directory.pickled_tensors(file)


def _shape(settings: _Settings, where: Path, positions: str) -> TransformerConfig:
    """Return the shape of a model."""
    tie = "three-way" if settings.has_one_matrix else "two-way"
    starts_at_padding = settings.decoder_start_token_id == settings.pad_token_id
    values = {
        "architecture": "transformer",
        "d_model": settings.d_model,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "heads": settings.encoder_attention_heads,
        "d_ff": settings.encoder_ffn_dim,
        "activation": ACTIVATIONS[settings.activation_function],
        "positions": positions,
        "norm": "pre" if settings.is_pegasus else "post",
        "norm_eps": NORM_EPS,
        "output_bias": True,
        "tie": tie if settings.tie_word_embeddings else "none",
        "start": "pad" if starts_at_padding else "bos",
        "dropout": settings.dropout or 0.0,
        "attention_dropout": settings.attention_dropout or 0.0,
        "activation_dropout": settings.activation_dropout or 0.0,
    }
    return checked(TransformerConfig, values, where)


def _longest_source(settings: _Settings, tokenizer: _Tokenizer) -> int:
    """Return the number of source tokens without the end, by the tokenizer and the positions."""
    most, stated = settings.max_position_embeddings, tokenizer.model_max_length
    if type(stated) is int and 2 <= stated < most:  # transformers writes a huge one for none
        most = stated
    return most - 1


def _positions(weights: Mapping[str, Tensor], width: int, where: Path) -> str:
    """Return the kind of positions: that of the stored table, or else Hugging Face's."""
    tables = [weights[name] for name in TABLES if name in weights]
    kind = sinusoids(tables, width)
    if kind is None:
        raise ForeignModelError(f"{where.parent}: {TABLES[0]} holds other positions than sinusoids")
    return kind


def _named(
    config: TransformerConfig, weights: Mapping[str, Tensor], where: Path
) -> dict[str, Tensor]:
    """Return the weights by the names of the BART family: each shared matrix once."""
    found = {name: each for name, each in weights.items() if name not in TABLES}
    source, target, output = bart_matrices(config)
    if source == target:
        merge(found, SHARED, [*EMBEDDINGS, OUTPUT], where)
    else:
        merge(found, source, [SHARED], where)
        if output == target:
            merge(found, target, [OUTPUT], where)
    if target in found:
        bias = found.get(LOGITS_BIAS, torch.zeros(1, len(found[target])))
        found[LOGITS_BIAS] = bias.squeeze(0)
    return found


def merge(found: dict[str, Tensor], name: str, aliases: Sequence[str], where: Path) -> None:
    """Keep one of the matrices that the configuration ties, under a name, after a comparison.

    Newer versions of transformers use all of them if they differ, and older ones the first.
    """
    for other in aliases:
        if other not in found:
            continue
        second = found.pop(other)
        first = found.setdefault(name, second)
        if first.shape != second.shape or not bool((first == second).all()):
            raise ForeignModelError(
                f"{where}: {name} and {other} differ, but {CONFIG} says that they are one matrix"
            )


def _vocabularies(
    directory: ForeignDirectory, settings: _Settings, tokenizer: _Tokenizer
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Return the vocabularies of source and target."""
    if settings.has_one_matrix and tokenizer.separate_vocabs:
        raise ForeignModelError(
            f"{directory.path / TOKENIZER}: separate_vocabs is true, but the model shares one "
            f"embedding matrix: {MIXED}"
        )
    source = _vocabulary(directory, VOCAB, settings, settings.vocab_size)
    _check_end(source, tokenizer.eos_token, directory)
    if not tokenizer.separate_vocabs:
        return source, source
    size = settings.decoder_vocab_size or settings.vocab_size
    return source, _vocabulary(directory, TARGET_VOCAB, settings, size)


def _check_end(source: ForeignVocabulary, stated: Any, directory: ForeignDirectory) -> None:
    """Raise `ForeignModelError` if tokenizer and model end a source with other tokens."""
    stated = stated.get("content") if isinstance(stated, dict) else stated
    end = source.control[2]
    assert end is not None  # by `vocabulary`
    if source.pieces[end] != stated:
        raise ForeignModelError(
            f"{directory.path / CONFIG}: eos_token_id is {end}, which is "
            f"{shown(source.pieces[end])}, but the tokenizer ends a source with {shown(stated)}"
        )


def _vocabulary(
    directory: ForeignDirectory, name: str, settings: _Settings, size: int
) -> ForeignVocabulary:
    where = directory.path / name
    pieces = ordered(directory.json(name), where)
    if len(pieces) != size:
        raise ForeignModelError(
            f"{where}: has {len(pieces):,} pieces, but {CONFIG} says {size:,}: {MIXED}"
        )
    pad, end, start = settings.pad_token_id, settings.eos_token_id, settings.decoder_start_token_id
    ids = {piece: n for n, piece in enumerate(pieces)}
    begin = ids.get("<s>") if start == pad else start
    return vocabulary(pieces, (pad, begin, end, ids.get("<unk>")), where)


def _language(code: Any) -> str | None:
    return language_code(code) if isinstance(code, str) else None
