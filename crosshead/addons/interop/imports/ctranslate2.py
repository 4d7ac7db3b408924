"""Imports of Transformers in CTranslate2's form: `model.bin`, vocabularies and SentencePiece.

The file of the weights is a list of named arrays, which is read here without CTranslate2.
"""

import io
import math
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from crosshead.addons.interop.base import ForeignSearch, Imported
from crosshead.addons.interop.ctranslate2_layers import ACTIVATIONS, BIAS, MATRICES
from crosshead.addons.interop.imports.reading import (
    AGAIN,
    MIXED,
    ForeignDirectory,
    ForeignModelError,
)
from crosshead.addons.interop.imports.values import (
    ForeignSettings,
    checked,
    sinusoids,
    translation_bundle,
    vocabulary,
    zero_start,
)
from crosshead.addons.interop.weights import CTRANSLATE2, translation_places
from crosshead.bundle.origin import ImportOrigin
from crosshead.config import MOST, MOST_POSITIONS, shown
from crosshead.decoding.settings import MOST_EXTRA, DecodeConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary

KIND = "ctranslate2"
"""The kind of these models."""

MODEL, CONFIG, SEARCH = "model.bin", "config.json", "search.json"

_VERSION, _SPECIFICATION, _REVISION = 6, "TransformerSpec", 7
_MOST_BYTES = 1 << 34

_BFLOAT16 = 5
_TYPES = {
    0: np.float32,
    1: np.int8,
    2: np.int16,
    3: np.int32,
    4: np.float16,
    _BFLOAT16: np.uint16,
}
_MODELS = (
    ("source.spm", "target.spm"),
    ("tokenizer.model", "tokenizer.model"),
    ("source.model", "target.model"),
    ("sentencepiece.model", "sentencepiece.model"),
)
"""The names of SentencePiece models of source and target that exports write."""

_VOCABULARIES = (
    ("shared_vocabulary.json", "shared_vocabulary.json"),
    ("source_vocabulary.json", "target_vocabulary.json"),
)

_PADDING = ("<pad>", "<blank>")
"""The names of padding in the vocabularies."""

_ENDS = ("weight", "bias", "gamma", "beta")
"""The last names of the variables that are weights."""

_KNOWN = (
    *("num_heads", "pre_norm", "activation", "scale_embeddings", "encodings", "queries_scale"),
    *("start_from_zero_embedding", "alignment_heads", "alignment_layer", "embeddings_merge"),
    *("relative_attention_max", "weight_scale"),
)
"""The beginnings of the last names of variables that the shape is read from, or that change no
output."""

_OFF = ("alibi", "alibi_use_positive_positions", "multi_query_attention", "scale_alibi")


class _Settings(ForeignSettings):
    """The settings in `config.json`."""

    add_source_bos: Literal[False] = False
    add_source_eos: bool = False
    decoder_start_token: str = "<s>"
    bos_token: str | None = None
    eos_token: str | None = None
    unk_token: str | None = None
    layer_norm_epsilon: float | None = None


Variables = dict[str, np.ndarray[Any, Any]]


class _Search(ForeignSettings):
    """The arguments of `translate_batch` in the `search.json` of an export of crosshead."""

    beam_size: int = Field(default=2, ge=1, le=1000)
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    max_decoding_length: int = Field(default=256, ge=1, le=MOST)
    min_decoding_length: int = Field(default=1, ge=0, le=MOST_EXTRA)


def read(path: Path, name: str) -> Imported:
    """Return the Transformer of a directory as a bundle."""
    directory = ForeignDirectory(path)
    if directory.has(SEARCH):
        given = checked(_Search, directory.json(SEARCH), path / SEARCH)
        search = ForeignSearch(
            given.beam_size, given.length_penalty, given.max_decoding_length,
            min_length=given.min_decoding_length,
        )  # fmt: skip
        return read_model(directory, name, KIND, search=search)
    found = read_model(directory, name, KIND)
    note = "CTranslate2 stores no search settings: the bundle has a beam of 4 and no length penalty"
    return Imported(found.bundle, [note, *found.notes])


def read_model(
    directory: ForeignDirectory,
    name: str,
    kind: str,
    *,
    models: tuple[bytes, bytes] | None = None,
    search: ForeignSearch | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Imported:
    """Return the Transformer of a directory as a bundle, with search settings from elsewhere."""
    where = directory.path / MODEL
    settings = checked(_Settings, directory.json(CONFIG), directory.path / CONFIG)
    variables = _variables(directory.bytes(MODEL, _MOST_BYTES), where)
    starts_at_zero = _starts_at_zero(variables)
    # Only models of Marian begin at zero. They always read the end of the source, but a conversion
    # from Hugging Face leaves it to the tokenizer to add it.
    if not settings.add_source_eos and not starts_at_zero:
        raise ForeignModelError(
            f"{directory.path / CONFIG}: add_source_eos is False, expected True; this model cannot "
            "be imported"
        )
    vocabularies = _vocabularies(directory, settings, starts_at_zero)
    weights = _weights(variables, where)
    if starts_at_zero:
        first = zero_start(vocabularies[1].control, weights[MATRICES[1]], where)
    else:
        first = "pad" if settings.decoder_start_token in _PADDING else "bos"
    config = _shape(variables, weights, settings, where, first)
    positions = len(variables["encoder/position_encodings/encodings"])
    decode, longest = _limits(search, positions)
    notes = []
    if not settings.add_source_eos:
        notes.append(
            "add_source_eos is off: programs that use the model with CTranslate2 end each source "
            "with the end token themselves, as Marian's tokenizer does; crosshead always does it"
        )
    bundle = translation_bundle(
        config,
        models or _models(directory),
        vocabularies,
        partial(translation_places, CTRANSLATE2, config, MATRICES, BIAS),
        weights,
        where,
        languages=languages,
        longest_source=longest,
        decode=decode,
        origin=ImportOrigin(kind=kind, name=name, sha256=directory.sha256(MODEL)),
    )
    return Imported(bundle, notes)


def _limits(search: ForeignSearch | None, positions: int) -> tuple[DecodeConfig, int]:
    """Return the search settings of a bundle, and its longest source.

    CTranslate2 limits the tokens of an output, and crosshead those beyond the source. The longest
    source is such that its outputs have CTranslate2's limit.
    """
    usual = DecodeConfig(length_penalty=0.0, length_offset=0.0, min_length=1)
    if search is None:
        return usual, positions - 1
    changes = {
        "beam": search.beam,
        "length_penalty": search.length_penalty,
        "min_length": search.min_length,
    }
    longest = max(1, min(search.max_length - 1 - usual.max_extra, positions - 1))
    return usual.model_copy(update=changes), longest


def _starts_at_zero(variables: Variables) -> bool:
    """Return whether the first vector of every target is zero, whatever its first token is."""
    return bool(variables.get("decoder/start_from_zero_embedding", np.zeros(1)).any())


def _variables(data: bytes, where: Path) -> Variables:
    """Return the arrays of `model.bin` by name."""
    file = io.BytesIO(data)
    try:
        version = _number(file, "I")
        if version != _VERSION:
            raise ForeignModelError(
                f"{where}: the file has version {version} of CTranslate2's format, expected "
                f"{_VERSION}; convert the original model again with CTranslate2 4"
            )
        specification, revision = _text(file), _number(file, "I")
        if (specification, revision) != (_SPECIFICATION, _REVISION):
            raise ForeignModelError(
                f"{where}: holds {specification[:60]!a}, revision {revision}; only "
                f"{_SPECIFICATION}, revision {_REVISION}, can be imported"
            )
        found = dict(_array(file) for _ in range(_number(file, "I")))
        for _ in range(_number(file, "I")):
            alias, target = _text(file), _text(file)
            found[alias] = found[target]
        if rest := len(file.read()):
            raise ValueError(f"{rest:,} bytes stand behind its end")
    except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
        raise ForeignModelError(f"{where}: truncated or damaged ({error}); {AGAIN}") from None
    return found


def _number(file: io.BytesIO, code: str) -> int:
    """Read an unsigned number, whose code in `struct` says its size."""
    (found,) = struct.unpack("<" + code, file.read(struct.calcsize("<" + code)))
    return int(found)


def _text(file: io.BytesIO) -> str:
    """Read a text that ends with a zero byte."""
    return file.read(_number(file, "H")).removesuffix(b"\0").decode()


def _array(file: io.BytesIO) -> tuple[str, np.ndarray[Any, Any]]:
    """Read the name of an array, and the array."""
    name = _text(file)
    shape = [_number(file, "I") for _ in range(_number(file, "B"))]
    dtype, size = _number(file, "B"), _number(file, "I")
    if dtype not in _TYPES or size != math.prod(shape) * np.dtype(_TYPES[dtype]).itemsize:
        raise ValueError(f"{name[:60]!a} has type {dtype} and {size} bytes")
    data = np.frombuffer(file.read(size), dtype=_TYPES[dtype])
    if dtype == _BFLOAT16:  # the upper half of a float32
        data = (data.astype(np.uint32) << 16).view(np.float32)
    return name, data.reshape(shape)


def _shape(
    variables: Variables,
    weights: Mapping[str, Tensor],
    settings: _Settings,
    where: Path,
    first: str,
) -> TransformerConfig:
    """Return the shape of a model, after checking the settings of its two stacks.

    `first` is the token that targets begin with.
    """

    def scalar(key: str) -> int:
        both = [variables.get(f"{side}/{key}") for side in ("encoder", "decoder")]
        try:
            [found] = {int(each.item()) for each in both if each is not None}
        except (ValueError, OverflowError):
            raise ForeignModelError(
                f"{where}: {key} of encoder and decoder: expected one whole number; {AGAIN}"
            ) from None
        return found

    if not scalar("scale_embeddings"):
        raise ForeignModelError(f"{where}: scale_embeddings is off; this model cannot be imported")
    d_model, inner = weights[MATRICES[0]].shape[1], "encoder/layer_0/ffn/linear_0/weight"
    if inner not in weights:
        raise ForeignModelError(f"{where}: variable {inner} is missing; {AGAIN}")
    values = {
        "architecture": "transformer",
        "d_model": d_model,
        "encoder_layers": _layers(variables, "encoder"),
        "decoder_layers": _layers(variables, "decoder"),
        "heads": scalar("num_heads"),
        "d_ff": len(weights[inner]),
        "activation": ACTIVATIONS.get(scalar("activation")),
        "positions": _positions(variables, d_model, where),
        "norm": "pre" if scalar("pre_norm") else "post",
        "norm_eps": settings.layer_norm_epsilon or 1e-5,
        "output_bias": True,
        "tie": _tie(weights),
        "start": first,
    }
    config = checked(TransformerConfig, values, where)
    _check_scales(variables, config.key_width, where)
    return config


def _check_scales(variables: Variables, d_key: int, where: Path) -> None:
    for name, each in variables.items():
        if name.endswith("/queries_scale") and not np.allclose(each, d_key**-0.5, atol=1e-6):
            raise ForeignModelError(f"{where}: {name} is {each.flat[0]:g}, expected 1/sqrt(d_key)")


def _layers(variables: Variables, side: str) -> int:
    return len({name.split("/")[1] for name in variables if name.startswith(f"{side}/layer_")
                and not name.startswith(f"{side}/layer_norm")})  # fmt: skip


def _positions(variables: Variables, d_model: int, where: Path) -> str:
    """Return the kind of the positions whose tables a model holds."""
    tables = [
        variables.get(f"{side}/position_encodings/encodings") for side in ("encoder", "decoder")
    ]
    if any(each is None for each in tables):
        raise ForeignModelError(
            f"{where}: position_encodings holds no table, and crosshead has no positions that "
            "begin at 1, as CTranslate2 computes them"
        )
    found = [torch.from_numpy(np.array(each, np.float32)) for each in tables]
    # Tables in float16 and bfloat16 are rounded, to 11 and 8 binary digits.
    rounded = 2e-3 if all(_is_bfloat16(each) for each in found) else 1e-3
    if any(each.dim() != 2 or len(each) > MOST_POSITIONS for each in found):
        raise ForeignModelError(f"{where}: position_encodings is no table; {AGAIN}")
    if not any(each.any() for each in found):
        return "none"
    kind = sinusoids(found, d_model, rounded)
    if kind is None:
        raise ForeignModelError(f"{where}: position_encodings holds other positions than sinusoids")
    return kind


def _is_bfloat16(tensor: Tensor) -> bool:
    return torch.equal(tensor, tensor.bfloat16().float())


def _weights(variables: Variables, where: Path) -> dict[str, Tensor]:
    """Return the variables that are weights; all others have a meaning that crosshead knows."""
    weights = {}
    for name, each in variables.items():
        last = name.rpartition("/")[2]
        if last in _ENDS:
            weights[name] = torch.from_numpy(np.array(each))
        elif not last.startswith(_KNOWN) and (last not in _OFF or each.any()):
            raise ForeignModelError(f"{where}: crosshead has no variable like {name[:80]!a}")
    for name in MATRICES:
        if name not in weights or weights[name].dim() != 2 or not len(weights[name]):
            raise ForeignModelError(f"{where}: variable {name} is no matrix; {AGAIN}")
    weights.setdefault(BIAS, torch.zeros(len(weights[MATRICES[2]])))
    return weights


def _tie(weights: Mapping[str, Tensor]) -> str:
    """Return the matrices that are equal."""
    source, target, output = (weights[name] for name in MATRICES)
    if not torch.equal(target, output):
        return "none"
    return "three-way" if torch.equal(source, target) else "two-way"


def _models(directory: ForeignDirectory) -> tuple[bytes, bytes]:
    for source, target in _MODELS:
        if directory.has(source) and directory.has(target):
            return directory.bytes(source), directory.bytes(target)
    raise ForeignModelError(
        f"{directory.path}: has no SentencePiece model; put source.spm and target.spm there"
    )


def _vocabularies(
    directory: ForeignDirectory, settings: _Settings, starts_at_zero: bool
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    names = next((both for both in _VOCABULARIES if directory.has(both[0])), _VOCABULARIES[0])
    start = settings.decoder_start_token
    if start == settings.eos_token and not starts_at_zero:
        raise ForeignModelError(
            f"{directory.path / CONFIG}: decoder_start_token is the end token, expected another"
        )
    begin = settings.bos_token if starts_at_zero or start in _PADDING else start
    source, target = (_vocabulary(directory, name, settings, begin) for name in names)
    if not starts_at_zero and start not in target.pieces:
        raise ForeignModelError(
            f"{directory.path / CONFIG}: decoder_start_token is {shown(start)}, which is not in "
            f"the vocabulary: {MIXED}"
        )
    return source, target


def _vocabulary(
    directory: ForeignDirectory, name: str, settings: _Settings, begin_token: str | None
) -> ForeignVocabulary:
    pieces = directory.json_list(name)
    ids = {piece: n for n, piece in enumerate(pieces)}
    pad = next((ids[each] for each in _PADDING if each in ids), None)
    names = (begin_token, settings.eos_token, settings.unk_token)
    begin, end, unknown = (None if each is None else ids.get(each) for each in names)
    return vocabulary(pieces, (pad, begin, end, unknown), directory.path / name)
