"""Imports of Marian's own models: `.npz` weights, `decoder.yml`, vocabularies and SentencePiece.

The bundle computes what Marian computes: its own sinusoids, an epsilon of 1e-6 in layer norms, and
a zero vector as the first target embedding. OPUS-MT publishes models in this form.
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, ConfigDict, Field
from torch import Tensor

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.imports.reading import (
    AGAIN,
    ForeignDirectory,
    ForeignModelError,
    explained,
    parse_yaml,
)
from crosshead.addons.interop.imports.values import (
    ForeignSettings,
    checked,
    lost,
    ordered,
    translation_bundle,
    vocabulary,
    zero_start,
)
from crosshead.addons.interop.weights import MARIAN, translation_places
from crosshead.bundle.origin import ImportOrigin
from crosshead.config import MOST_POSITIONS, shown
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary
from crosshead.text.parallel.languages import suffix_language
from crosshead.text.pieces import load_pieces

KIND = "marian"
"""The kind of these models."""

DECODER = "decoder.yml"
"""The file that names the weights and the vocabularies. Marian's training writes it with the name
of the weights before it, such as `model.npz.decoder.yml`."""

SETTINGS = "special:model.yml"
"""The array of the weights that holds the settings of the model as text."""

NORM_EPS = 1e-6
"""The epsilon of the layer norms of Marian's Transformer (src/layers/generic.h, layerNorm). The
default of the operator itself, 1e-9, is not used there."""

LONGEST_SOURCE = 511
"""The largest number of source tokens if no file says it; Hugging Face takes as many."""

_NORMS = {("", "dan", ""): "post", ("n", "da", "n"): "pre"}
"""The place of layer norms by what Marian does before and after a sublayer, and at the end."""

_OFF_VALUES: tuple[object, ...] = ("", "0", "0.0", "false", "False", "~", "null", [])

_Off = Literal["false"]
_Zero = Literal["0"]
_Joined = BeforeValidator(lambda each: " ".join(map(str, each)) if isinstance(each, list) else each)


class _Settings(ForeignSettings):
    """The settings of a model. All values are texts, with hyphens in the keys.

    A setting that an older version of Marian did not have may be missing.
    """

    model_config = ConfigDict(strict=False, alias_generator=lambda key: key.replace("_", "-"))

    version: str = ""
    type: Literal["transformer"] = "transformer"
    dim_emb: int
    enc_depth: int
    dec_depth: int
    tied_embeddings: bool = False
    tied_embeddings_all: bool = False
    tied_embeddings_src: bool = False
    transformer_heads: int
    transformer_dim_ffn: int
    transformer_preprocess: str = ""
    transformer_postprocess: str = "dan"
    transformer_postprocess_top: str = ""
    transformer_decoder_autoreg: Literal["self-attention"] = "self-attention"
    # Its gelu is another one than crosshead's.
    transformer_ffn_activation: Literal["swish", "relu"] = "swish"
    transformer_ffn_depth: Literal["2"] = "2"
    transformer_decoder_ffn_depth: Literal["0", "2"] = "0"
    transformer_decoder_dim_ffn: _Zero = "0"
    transformer_no_projection: _Off = "false"
    transformer_no_bias: _Off = "false"
    transformer_no_affine: _Off = "false"
    transformer_pool: _Off = "false"
    transformer_train_position_embeddings: _Off = "false"
    transformer_tied_layers: Annotated[Literal[""], _Joined] = ""
    transformer_attention_mask: Literal["default"] = "default"
    transformer_alibi_shift: _Off = "false"
    transformer_alibi_trainable: _Off = "false"
    transformer_disable_position_embeddings: _Off = "false"
    transformer_postprocess_emb: Literal["d", ""] = "d"
    output_omit_bias: _Off = "false"
    lemma_dim_emb: _Zero = "0"
    lemma_dependency: Literal[""] = ""
    factors_combine: Literal["sum"] = "sum"
    factors_dim_emb: _Zero = "0"
    right_left: _Off = "false"
    ulr: _Off = "false"
    input_types: Annotated[Literal["", "sequence", "sequence sequence"], _Joined] = ""

    @property
    def shares_sides(self) -> bool:
        """True if source and target have one matrix."""
        return self.tied_embeddings_all or self.tied_embeddings_src

    @property
    def tie(self) -> str:
        """The matrices that are shared.

        If source and target share a matrix but the output does not, each side gets a copy.
        """
        if self.tied_embeddings_all or (self.tied_embeddings and self.tied_embeddings_src):
            return "three-way"
        return "two-way" if self.tied_embeddings else "none"


def _number(value: Any) -> Any:
    return 0 if value in _OFF_VALUES else 1 if str(value).lower() == "true" else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Decoder(ForeignSettings):
    """The settings in `decoder.yml` that come along, with the defaults of Marian."""

    model_config = _Settings.model_config

    models: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1, max_length=1)]
    vocabs: Annotated[list[str], Field(min_length=2, max_length=2)]
    beam_size: int = 12
    normalize: Annotated[float, BeforeValidator(_number)] = 0.0
    max_length: Annotated[int, BeforeValidator(_number)] = 0


_PRE_NORM_SINCE = (1, 10, 28)
"""The version of Marian since which the keys and values of self-attention in pre-norm models have
the norm of the queries (src/models/transformer.h, LayerAttention). Earlier, they had none. The
decoder still leaves it out from the second token on, because it appends the token to the earlier
ones first; training and scoring have it."""

_LOST = (
    *("word-penalty", "max-length-factor", "max-length-crop", "force-decode", "weights"),
    *("allow-unk", "allow-special", "shortlist", "output-sampling", "output-approx-knn"),
)
"""Settings of the search that change the output, and that crosshead does not have."""

_KINDS_OF_VOCABULARIES = re.compile(r"(\.(spm|yml|yaml|json|vocab))+$")
"""The ends of the names of vocabularies, behind a language."""

BIAS = "decoder_ff_logit_out_b"
OUTPUT, TURNED = "decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"
"""The names of the output bias, and of the output matrix in both directions."""


def read(path: Path, name: str) -> Imported:
    """Return the Marian model of a directory as a bundle."""
    directory = ForeignDirectory(path)
    found = [DECODER] if directory.has(DECODER) else directory.matching(f"*.{DECODER}")
    if len(found) != 1:
        raise ForeignModelError(
            f"{path}: expected {DECODER}, or one file *.{DECODER} that names the weights, found "
            f"{found}; copy that of the model to {path / DECODER}"
        )
    where = path / found[0]
    stated = directory.yaml(found[0])
    decoder = checked(_Decoder, stated, where)
    [weights_name] = _names(directory, "models", decoder.models, where)
    vocabulary_names = _names(directory, "vocabs", decoder.vocabs, where)
    longest = min(max(1, decoder.max_length - 1), MOST_POSITIONS)  # the end counts in `max-length`
    notes = lost(
        (key, value) for key, value in stated.items() if key in _LOST and value not in _OFF_VALUES
    )
    values = {"beam": decoder.beam_size, "length_penalty": decoder.normalize, "length_offset": 0.0}
    decode = checked(DecodeConfig, values, where)
    where = path / weights_name
    arrays = directory.arrays(weights_name)
    if SETTINGS not in arrays:
        raise ForeignModelError(f"{where}: has no array {SETTINGS!r}; {AGAIN}")
    text = arrays.pop(SETTINGS).astype(np.uint8).tobytes().rstrip(b"\0")
    place = f"{where}: {SETTINGS}"
    settings = checked(_Settings, _lowered(parse_yaml(text, place)), place)
    config = _shape(settings, where)
    models = _models(directory, vocabulary_names)
    vocabularies = [_vocabulary(directory, name) for name in vocabulary_names]
    weights, names = _weights(arrays), _matrices(config, settings)
    if OUTPUT in weights and weights[OUTPUT].dim() == 2:
        weights[OUTPUT] = weights[OUTPUT].T
    elif TURNED in weights:
        weights[OUTPUT] = weights.pop(TURNED)
    if names[1] in weights:
        target = weights[names[1]]
        start = zero_start(vocabularies[1].control, target, where)
        config = config.model_copy(update={"start": start})
        weights.setdefault(BIAS, torch.zeros(len(target)))
    if config.norm == "pre":
        notes.append(
            "Marian's own decoder leaves out a norm of pre-norm models, so its translations "
            "differ; log-probabilities are those of Marian's training and scorer"
        )
    bundle = translation_bundle(
        config,
        models,
        vocabularies,
        partial(translation_places, MARIAN, config, names, BIAS),
        weights,
        where,
        languages=_languages(vocabulary_names),
        longest_source=longest if decoder.max_length else LONGEST_SOURCE,
        decode=decode,
        origin=ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(weights_name)),
    )
    return Imported(bundle, notes)


def _names(directory: ForeignDirectory, key: str, found: list[str], where: Path) -> list[str]:
    """Return the names of the files of a key: files in the directory, whatever their path was."""
    names = [each.replace("\\", "/").rpartition("/")[2] for each in found]
    for stated, name in zip(found, names, strict=True):
        if name in ("", "..") or not directory.has(name):
            raise ForeignModelError(
                f"{where}: {key} names {shown(stated)}, which is not in the directory"
            )
    return names


def _languages(names: list[str]) -> tuple[str | None, str | None]:
    """Return the languages in the names of vocabularies such as `vocab.en.spm`, if both differ."""
    source, target = (suffix_language(_KINDS_OF_VOCABULARIES.sub("", name)) for name in names)
    return (source, target) if source and target and source != target else (None, None)


def _lowered(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with their texts in lower case, as YAML may have `True`."""
    return {key: each.lower() if isinstance(each, str) else each for key, each in settings.items()}


def _shape(settings: _Settings, where: Path) -> TransformerConfig:
    """Return the shape of a model."""
    operations = (
        settings.transformer_preprocess,
        settings.transformer_postprocess,
        settings.transformer_postprocess_top,
    )
    if operations not in _NORMS:
        raise ForeignModelError(
            f"{where}: transformer-preprocess, transformer-postprocess and -postprocess-top are "
            f"{operations}; only post-norm ('', 'dan', '') and pre-norm ('n', 'da', 'n') can be "
            "imported"
        )
    if operations[0] == "n" and _version(settings.version) < _PRE_NORM_SINCE:
        raise ForeignModelError(
            f"{where}: is a pre-norm model of version {shown(settings.version)}, expected "
            f"v{'.'.join(map(str, _PRE_NORM_SINCE))} or later; this model cannot be imported"
        )
    values = {
        "architecture": "transformer",
        "d_model": settings.dim_emb,
        "encoder_layers": settings.enc_depth,
        "decoder_layers": settings.dec_depth,
        "heads": settings.transformer_heads,
        "d_ff": settings.transformer_dim_ffn,
        "activation": settings.transformer_ffn_activation,
        "positions": "sinusoidal-marian",
        "norm": _NORMS[operations],
        "norm_eps": NORM_EPS,
        "output_bias": True,
        "tie": settings.tie,
        "start": "pad",
    }
    return checked(TransformerConfig, values, where)


def _version(text: str) -> tuple[int, ...]:
    """Return the version of Marian that a text begins with, or an empty one."""
    found = re.match(r"v(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return tuple(map(int, found.groups())) if found else ()


def _weights(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Tensor]:
    """Return the weights by the names of `MARIAN`: Marian stores vectors as matrices of one row."""
    found = {
        name.removesuffix("_pre"): torch.from_numpy(np.array(each)) for name, each in arrays.items()
    }
    return {
        name: each[0] if each.dim() == 2 and len(each) == 1 else each
        for name, each in found.items()
    }


def _matrices(config: TransformerConfig, settings: _Settings) -> list[str]:
    """Return the names of the matrices of source, target and output."""
    one = settings.shares_sides
    source, target = ("Wemb", "Wemb") if one else ("encoder_Wemb", "decoder_Wemb")
    return [source, target, OUTPUT if config.tie == "none" else target]


def _models(directory: ForeignDirectory, names: list[str]) -> list[bytes]:
    """Return the SentencePiece models: the vocabularies themselves, or the files beside them."""
    found = [
        name if name.endswith(".spm") else beside
        for name, beside in zip(names, ("source.spm", "target.spm"), strict=True)
    ]
    for name in found:
        if not directory.has(name):
            raise ForeignModelError(
                f"{directory.path}: has no {name}; only models with SentencePiece can be imported"
            )
    return [directory.bytes(name) for name in found]


@explained()
def _vocabulary(directory: ForeignDirectory, name: str) -> ForeignVocabulary:
    where = directory.path / name
    if name.endswith(".spm"):
        _, pieces = load_pieces(directory.bytes(name), where)
    elif name.endswith((".yml", ".yaml", ".json")):
        pieces = ordered(directory.yaml(name), where)
    else:
        raise ForeignModelError(f"{where}: expected a vocabulary that ends in .yml or .spm")
    ids = {piece: n for n, piece in enumerate(pieces)}
    control = (ids.get("<pad>"), ids.get("<s>"), ids.get("</s>"), ids.get("<unk>"))
    return vocabulary(pieces, control, where)
