"""Imports of Marian's own models: `.npz` weights, `decoder.yml`, vocabularies and SentencePiece.

The bundle computes what Marian computes: its own sinusoids, an epsilon of 1e-6 in layer norms, and
a zero vector as the first target embedding. OPUS-MT publishes models in this form.
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
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
    ForeignText,
    check_values,
    checked,
    lost,
    ordered,
    shown,
    translation_bundle,
    vocabulary,
    whole_number,
    zero_start,
)
from crosshead.addons.interop.weights import MARIAN, translation_places
from crosshead.bundle.base import ImportOrigin
from crosshead.config import MOST_POSITIONS
from crosshead.decoding.search import DecodeConfig
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

_NEEDED = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-activation": ("swish", "relu"),  # its gelu is another one than crosshead's
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-decoder-dim-ffn": ("0",),
    "transformer-no-projection": ("false",),
    "transformer-no-bias": ("false",),
    "transformer-no-affine": ("false",),
    "transformer-pool": ("false",),
    "transformer-train-position-embeddings": ("false",),
    "transformer-tied-layers": ("", []),
    "transformer-attention-mask": ("default",),
    "transformer-alibi-shift": ("false",),
    "transformer-alibi-trainable": ("false",),
    "transformer-disable-position-embeddings": ("false",),
    "transformer-postprocess-emb": ("d", ""),
    "output-omit-bias": ("false",),
    "lemma-dim-emb": ("0",),
    "lemma-dependency": ("",),
    "factors-combine": ("sum",),
    "factors-dim-emb": ("0",),
    "right-left": ("false",),
    "ulr": ("false",),
    "input-types": ("", [], ["sequence"], ["sequence", "sequence"]),
}
"""The values of settings that can be expressed, the usual one first. A setting that an older
version of Marian did not have may be missing."""

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

_OFF_VALUES: tuple[object, ...] = ("", "0", "0.0", "false", "False", "~", "null", [])

_KINDS_OF_VOCABULARIES = re.compile(r"(\.(spm|yml|yaml|json|vocab))+$")
"""The ends of the names of vocabularies, behind a language."""

BIAS = "decoder_ff_logit_out_b"
OUTPUT, TURNED = "decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"
"""The names of the output bias, and of the output matrix in both directions."""


def read(path: Path, name: str) -> Imported:
    """Return the Marian model of a directory as a bundle."""
    directory = ForeignDirectory(path)
    found = _decoders(directory)
    if len(found) != 1:
        raise ForeignModelError(
            f"{path}: expected {DECODER}, or one file *.{DECODER} that names the weights, found "
            f"{found}; copy that of the model to {path / DECODER}"
        )
    where = path / found[0]
    decoder = directory.yaml(found[0])
    [weights_name] = _names(directory, decoder, "models", 1, where)
    vocabulary_names = _names(directory, decoder, "vocabs", 2, where)
    decode, notes = _search(decoder, where)
    longest = _longest_source(decoder, where)
    where = path / weights_name
    arrays = directory.arrays(weights_name)
    if SETTINGS not in arrays:
        raise ForeignModelError(f"{where}: has no array {SETTINGS!r}; {AGAIN}")
    text = arrays.pop(SETTINGS).astype(np.uint8).tobytes().rstrip(b"\0")
    settings = parse_yaml(text, f"{where}: {SETTINGS}")
    config = _shape(settings, where)
    sides = ForeignText(
        models=_models(directory, vocabulary_names),
        vocabularies=_vocabularies(directory, vocabulary_names),
        languages=_languages(vocabulary_names),
        longest_source=longest,
        decode=decode,
    )
    origin = ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(weights_name))
    weights, names = _weights(arrays), _matrices(config, settings)
    if OUTPUT in weights and weights[OUTPUT].dim() == 2:
        weights[OUTPUT] = weights[OUTPUT].T
    elif TURNED in weights:
        weights[OUTPUT] = weights.pop(TURNED)
    if names[1] in weights:
        target = weights[names[1]]
        start = zero_start(sides.vocabularies[1].control, target, where)
        config = config.model_copy(update={"start": start})
        weights.setdefault(BIAS, torch.zeros(len(target)))
    if config.norm == "pre":
        notes.append(
            "Marian's own decoder leaves out a norm of pre-norm models, so its translations "
            "differ; log-probabilities are those of Marian's training and scorer"
        )
    places = partial(translation_places, MARIAN, config, names, BIAS)
    return Imported(translation_bundle(config, sides, places, weights, origin, where), notes)


def _decoders(directory: ForeignDirectory) -> list[str]:
    """Return the names of the files that may name the weights: one of them if it is clear."""
    return [DECODER] if directory.has(DECODER) else directory.matching(f"*.{DECODER}")


def _names(
    directory: ForeignDirectory, decoder: Mapping[str, Any], key: str, count: int, where: Path
) -> list[str]:
    """Return the names of the files of a key: files in the directory, whatever their path was."""
    found = decoder.get(key)
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ForeignModelError(f"{where}: {key}: expected names of files, found {shown(found)}")
    if len(found) != count:
        raise ForeignModelError(
            f"{where}: {key} names {len(found)} files, expected {count}, as without ensembles"
        )
    names = [each.replace("\\", "/").rpartition("/")[2] for each in found]
    for stated, name in zip(found, names, strict=True):
        if name in ("", "..") or not directory.has(name):
            raise ForeignModelError(
                f"{where}: {key} names {shown(stated)}, which is not in the directory"
            )
    return names


def _longest_source(decoder: Mapping[str, Any], where: Path) -> int:
    """Return the largest number of source tokens, without the end, which `max-length` counts."""
    if decoder.get("max-length") in (None, *_OFF_VALUES):
        return LONGEST_SOURCE
    return min(max(1, whole_number(decoder, "max-length", where) - 1), MOST_POSITIONS)


def _languages(names: list[str]) -> tuple[str | None, str | None]:
    """Return the languages in the names of vocabularies such as `vocab.en.spm`, if both differ."""
    source, target = (suffix_language(_KINDS_OF_VOCABULARIES.sub("", name)) for name in names)
    return (source, target) if source and target and source != target else (None, None)


def _setting(settings: Mapping[str, Any], key: str, usual: str) -> Any:
    found = settings.get(key, usual)
    return found.lower() if isinstance(found, str) else found


def _shape(settings: Mapping[str, Any], where: Path) -> TransformerConfig:
    """Return the shape of a model, after checking that all settings can be expressed."""
    given = {key: _setting(settings, key, "") for key in settings}
    check_values(given, _NEEDED, where)
    operations = tuple(
        str(_setting(settings, f"transformer-{each}", usual))
        for each, usual in (("preprocess", ""), ("postprocess", "dan"), ("postprocess-top", ""))
    )
    if operations not in _NORMS:
        raise ForeignModelError(
            f"{where}: transformer-preprocess, transformer-postprocess and -postprocess-top are "
            f"{operations}; only post-norm ('', 'dan', '') and pre-norm ('n', 'da', 'n') can be "
            "imported"
        )
    version = settings.get("version", "")
    if operations[0] == "n" and _version(version) < _PRE_NORM_SINCE:
        raise ForeignModelError(
            f"{where}: is a pre-norm model of version {shown(version)}, expected "
            f"v{'.'.join(map(str, _PRE_NORM_SINCE))} or later; this model cannot be imported"
        )

    def number(key: str) -> int:
        return whole_number(settings, key, where)

    values = {
        "architecture": "transformer",
        "d_model": number("dim-emb"),
        "encoder_layers": number("enc-depth"),
        "decoder_layers": number("dec-depth"),
        "heads": number("transformer-heads"),
        "d_ff": number("transformer-dim-ffn"),
        "activation": given.get("transformer-ffn-activation", "swish"),
        "positions": "sinusoidal-marian",
        "norm": _NORMS[operations],
        "norm_eps": NORM_EPS,
        "output_bias": True,
        "tie": _tie(settings),
        "start": "pad",
    }
    return checked(TransformerConfig, values, where)


def _version(text: object) -> tuple[int, ...]:
    """Return the version of Marian that a text begins with, or an empty one."""
    found = re.match(r"v(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text) if isinstance(text, str) else None
    return tuple(map(int, found.groups())) if found else ()


def _tie(settings: Mapping[str, Any]) -> str:
    """Return the matrices that are shared.

    If source and target share a matrix but the output does not, each side gets a copy.
    """
    if _is(settings, "tied-embeddings-all") or (
        _is(settings, "tied-embeddings") and _is(settings, "tied-embeddings-src")
    ):
        return "three-way"
    return "two-way" if _is(settings, "tied-embeddings") else "none"


def _is(settings: Mapping[str, Any], key: str) -> bool:
    return bool(_setting(settings, key, "false") == "true")


def _weights(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Tensor]:
    """Return the weights by the names of `MARIAN`: Marian stores vectors as matrices of one row."""
    found = {
        name.removesuffix("_pre"): torch.from_numpy(np.array(each)) for name, each in arrays.items()
    }
    return {
        name: each[0] if each.dim() == 2 and len(each) == 1 else each
        for name, each in found.items()
    }


def _matrices(config: TransformerConfig, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the matrices of source, target and output."""
    shares = _is(settings, "tied-embeddings-all") or _is(settings, "tied-embeddings-src")
    source, target = ("Wemb", "Wemb") if shares else ("encoder_Wemb", "decoder_Wemb")
    return [source, target, OUTPUT if config.tie == "none" else target]


def _models(directory: ForeignDirectory, names: list[str]) -> tuple[bytes, bytes]:
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
    return directory.bytes(found[0]), directory.bytes(found[1])


def _vocabularies(
    directory: ForeignDirectory, names: list[str]
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    source, target = (_vocabulary(directory, name) for name in names)
    return source, target


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


def _search(decoder: Mapping[str, Any], where: Path) -> tuple[DecodeConfig, list[str]]:
    """Return the search settings, and notes about the settings that do not come along."""
    beam = whole_number({"beam-size": 12, **decoder}, "beam-size", where)
    normalize = _setting(decoder, "normalize", "0")
    try:
        alpha = {"true": 1.0, "false": 0.0}.get(normalize) if normalize else 0.0
        alpha = float(normalize) if alpha is None else alpha
    except (TypeError, ValueError):
        raise ForeignModelError(
            f"{where}: normalize: expected a number, found {shown(normalize)}"
        ) from None
    notes = lost(
        (key, value) for key, value in decoder.items() if key in _LOST and value not in _OFF_VALUES
    )
    values = {"beam": beam, "length_penalty": alpha, "length_offset": 0.0}
    return checked(DecodeConfig, values, where), notes
