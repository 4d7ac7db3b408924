"""Imports of translation models in Hugging Face's form: Marian, and Pegasus with its tokenizer.

`MarianMTModel` and `PegasusForConditionalGeneration` load such directories. Pegasus is pre-norm,
with a norm at the end of each stack; otherwise both compute the same. Exports of crosshead are
Pegasus if the model is pre-norm, with the tokenizer files of Marian.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
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
    ForeignText,
    check_values,
    checked,
    number,
    one_of,
    ordered,
    shown,
    sinusoids,
    token_id,
    translation_bundle,
    truth,
    vocabulary,
    whole_number,
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
from crosshead.bundle.base import ImportOrigin
from crosshead.config import MOST_POSITIONS
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

_SHARES = "share_encoder_decoder_embeddings"


def read(path: Path, name: str) -> Imported:
    """Return the translation model of a directory as a bundle."""
    directory = ForeignDirectory(path)
    settings = directory.json(CONFIG)
    where = path / CONFIG
    tokenizer = directory.json(TOKENIZER) if directory.has(TOKENIZER) else {}
    _check_model(directory, settings, tokenizer)
    vocabularies = _vocabularies(directory, settings, tokenizer)
    file, weights = stored_weights(directory)
    positions = _positions(weights, settings, where)
    config = _shape(settings, where, positions)
    stored, place = stored_search(directory, settings, where)
    pieces, (pad, begin, _, unknown) = vocabularies[1].pieces, vocabularies[1].control
    breaks = [row for row, piece in enumerate(pieces) if is_line_break(piece)]
    longest = _longest_source(settings, tokenizer, where)
    decode, notes = search_settings(
        stored, settings, (pad, begin, unknown, *breaks), place, longest_source=longest
    )
    text = ForeignText(
        models=(directory.bytes(SOURCE_SPM), directory.bytes(TARGET_SPM)),
        vocabularies=vocabularies,
        languages=(
            _language(tokenizer.get("source_lang")),
            _language(tokenizer.get("target_lang")),
        ),
        longest_source=longest,
        decode=decode,
    )
    origin = ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(file))
    named = _named(config, weights, path / file)
    places = partial(bart_places, config)
    return Imported(translation_bundle(config, text, places, named, origin, path / file), notes)


def stored_weights(directory: ForeignDirectory) -> tuple[str, dict[str, Tensor]]:
    """Return the name of the file of weights in a directory, and the weights."""
    file = SAFE if directory.has(SAFE) else PICKLED
    if not directory.has(file):
        raise ForeignModelError(f"{directory.path}: has neither {SAFE} nor {PICKLED}; {AGAIN}")
    return file, directory.safetensors(file) if file == SAFE else directory.pickled_tensors(file)


def _check_model(
    directory: ForeignDirectory, settings: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> None:
    """Raise `ForeignModelError` if a model is of another type, or has another tokenizer."""
    where = directory.path / CONFIG
    if _is_pegasus(settings):
        check_values(settings, {"tie_word_embeddings": (True,)}, where)
        if not directory.has(SOURCE_SPM):
            raise ForeignModelError(
                f"{directory.path}: a Pegasus with the tokenizer "
                f"{shown(tokenizer.get('tokenizer_class'))}, expected that of Marian with "
                f"{SOURCE_SPM}, {TARGET_SPM} and {VOCAB}"
            )
    check_unquantized(settings, where)
    check_values({"scale_embedding": False, **settings}, {"scale_embedding": (True,)}, where)


def check_unquantized(settings: Mapping[str, Any], where: Path) -> None:
    """Raise `ForeignModelError` if a model is quantized."""
    if settings.get("quantization_config"):
        raise ForeignModelError(
            f"{where}: quantization_config is set, so the weights are quantized; import the model "
            "that was quantized"
        )


def _shape(settings: Mapping[str, Any], where: Path, positions: str) -> TransformerConfig:
    """Return the shape of a model."""

    def whole(key: str) -> int:
        return whole_number(settings, key, where)

    def same(key: str) -> int:
        sides = whole(f"encoder_{key}"), whole(f"decoder_{key}")
        if sides[0] != sides[1]:
            raise ForeignModelError(
                f"{where}: encoder_{key} is {sides[0]}, but decoder_{key} is {sides[1]}; crosshead "
                "has one for both"
            )
        return sides[0]

    values = {
        "architecture": "transformer",
        "d_model": whole("d_model"),
        "encoder_layers": whole("encoder_layers"),
        "decoder_layers": whole("decoder_layers"),
        "heads": same("attention_heads"),
        "d_ff": same("ffn_dim"),
        "activation": one_of(
            settings.get("activation_function", "gelu"), "activation_function", ACTIVATIONS, where
        ),
        "positions": positions,
        "norm": "pre" if _is_pegasus(settings) else "post",
        "norm_eps": NORM_EPS,
        "output_bias": True,
        "tie": _tie(settings, where),
        "start": "pad" if settings.get("decoder_start_token_id") == settings.get("pad_token_id")
        else "bos",
        "dropout": number(settings, "dropout", where, 0.1),
        "attention_dropout": number(settings, "attention_dropout", where, 0.0),
        "activation_dropout": number(settings, "activation_dropout", where, 0.0),
    }  # fmt: skip
    return checked(TransformerConfig, values, where)


def _is_pegasus(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("model_type") == PEGASUS)


def _has_one_matrix(settings: Mapping[str, Any], where: Path) -> bool:
    """Return whether source and target share a matrix, as those of every Pegasus do."""
    return _is_pegasus(settings) or truth(settings, _SHARES, where, usual=True)


def _tie(settings: Mapping[str, Any], where: Path) -> str:
    if not truth(settings, "tie_word_embeddings", where, usual=True):
        return "none"
    return "three-way" if _has_one_matrix(settings, where) else "two-way"


def _most_positions(settings: Mapping[str, Any], where: Path) -> int:
    """Return the number of positions, which limits sources."""
    most = whole_number(settings, "max_position_embeddings", where)
    if not 2 <= most <= MOST_POSITIONS:
        raise ForeignModelError(
            f"{where}: max_position_embeddings is {most:,}, expected 2 to {MOST_POSITIONS:,}"
        )
    return most


def _longest_source(settings: Mapping[str, Any], tokenizer: Mapping[str, Any], where: Path) -> int:
    """Return the number of source tokens without the end, by the tokenizer and the positions."""
    most, stated = _most_positions(settings, where), tokenizer.get("model_max_length")
    if type(stated) is int and 2 <= stated < most:  # transformers writes a huge one for none
        most = stated
    return most - 1


def _positions(weights: Mapping[str, Tensor], settings: Mapping[str, Any], where: Path) -> str:
    """Return the kind of positions: that of the stored table, or else Hugging Face's."""
    tables = [weights[name] for name in TABLES if name in weights]
    kind = sinusoids(tables, whole_number(settings, "d_model", where))
    if kind is None:
        raise ForeignModelError(f"{where.parent}: {TABLES[0]} holds other positions than sinusoids")
    return kind


def _named(
    config: TransformerConfig, weights: Mapping[str, Tensor], where: Path
) -> dict[str, Tensor]:
    """Return the weights by the names of the BART family: each shared matrix once."""
    found = {name: each for name, each in weights.items() if name not in TABLES}
    source, target, output = bart_matrices(config)
    aliases = {source: [SHARED], target: [], output: [OUTPUT]}
    if source == target:
        aliases[source] = [*EMBEDDINGS, OUTPUT]
    for name, others in aliases.items():
        _merge(found, name, list(dict.fromkeys([name, *others])), where)
    if target in found:
        bias = found.get(LOGITS_BIAS, torch.zeros(1, len(found[target])))
        found[LOGITS_BIAS] = bias.squeeze(0)
    return found


def _merge(found: dict[str, Tensor], name: str, aliases: list[str], where: Path) -> None:
    """Keep one of the equal matrices that Hugging Face ties, under a name."""
    known = [each for each in aliases if each in found]
    for other in known[1:]:
        check_tied(known[0], other, found, where)
    values = [found.pop(each) for each in known]
    if values:
        found[name] = values[0]


def check_tied(one: str, other: str, weights: Mapping[str, Tensor], where: Path) -> None:
    """Check that two matrices, which the configuration ties, are equal if a file has both.

    Newer versions of transformers use both if they differ, and older ones the first.
    """
    if one not in weights or other not in weights:
        return
    first, second = weights[one], weights[other]
    if first.shape != second.shape or not bool((first == second).all()):
        raise ForeignModelError(
            f"{where}: {one} and {other} differ, but {CONFIG} says that they are one matrix"
        )


def _vocabularies(
    directory: ForeignDirectory, settings: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """Return the vocabularies of source and target."""
    shared = _has_one_matrix(settings, directory.path / CONFIG)
    separate = truth(tokenizer, "separate_vocabs", directory.path / TOKENIZER)
    if shared and separate:
        raise ForeignModelError(
            f"{directory.path / TOKENIZER}: separate_vocabs is true, but the model shares one "
            f"embedding matrix: {MIXED}"
        )
    size = whole_number(settings, "vocab_size", directory.path / CONFIG)
    source = _vocabulary(directory, VOCAB, settings, size)
    _check_end(source, tokenizer, directory)
    if not separate:
        return source, source
    if settings.get("decoder_vocab_size"):
        size = whole_number(settings, "decoder_vocab_size", directory.path / CONFIG)
    return source, _vocabulary(directory, TARGET_VOCAB, settings, size)


def _check_end(
    source: ForeignVocabulary, tokenizer: Mapping[str, Any], directory: ForeignDirectory
) -> None:
    """Raise `ForeignModelError` if tokenizer and model end a source with other tokens."""
    stated = tokenizer.get("eos_token", "</s>")
    stated = stated.get("content") if isinstance(stated, dict) else stated
    end = source.control[2]
    assert end is not None  # by `vocabulary`
    if source.pieces[end] != stated:
        raise ForeignModelError(
            f"{directory.path / CONFIG}: eos_token_id is {end}, which is "
            f"{shown(source.pieces[end])}, but the tokenizer ends a source with {shown(stated)}"
        )


def _vocabulary(
    directory: ForeignDirectory, name: str, settings: Mapping[str, Any], size: int
) -> ForeignVocabulary:
    where = directory.path / name
    pieces = ordered(directory.json(name), where)
    if len(pieces) != size:
        raise ForeignModelError(
            f"{where}: has {len(pieces):,} pieces, but {CONFIG} says {size:,}: {MIXED}"
        )
    pad, end, start = (
        token_id(settings, f"{each}_token_id", directory.path / CONFIG)
        for each in ("pad", "eos", "decoder_start")
    )
    ids = {piece: n for n, piece in enumerate(pieces)}
    begin = ids.get("<s>") if start == pad else start
    return vocabulary(pieces, (pad, begin, end, ids.get("<unk>")), where)


def _language(code: Any) -> str | None:
    return language_code(code) if isinstance(code, str) else None
