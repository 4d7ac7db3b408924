"""Imports of GPT-2 in Hugging Face's form: a directory that `GPT2LMHeadModel` loads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.generation import search_settings, stored_search
from crosshead.addons.interop.imports.huggingface import (
    CONFIG,
    KIND,
    NORM_EPS,
    TOKENIZER,
    VOCAB,
    check_tied,
    check_unquantized,
    stored_weights,
)
from crosshead.addons.interop.imports.reading import AGAIN, ForeignDirectory, ForeignModelError
from crosshead.addons.interop.imports.values import (
    Control,
    check_values,
    checked,
    language_bundle,
    number,
    one_of,
    shown,
    token_id,
    truth,
    whole_number,
)
from crosshead.addons.interop.weights import ACTIVATIONS, GPT2_OUTPUT, TOKENS
from crosshead.bundle.base import ImportOrigin
from crosshead.models.language import LanguageConfig
from crosshead.text.imported import JsonTokenizer, parsed, tokenizers_library
from crosshead.text.pieces import CONTROL
from crosshead.vocabulary import BOS, PAD, UNK

MODEL_TYPE = "gpt2"
"""The `model_type` of these models."""

TOKENIZER_JSON, MERGES = "tokenizer.json", "merges.txt"

_HEADS = ("GPT2LMHeadModel", "GPT2Model")
"""The classes of models whose output is the next token. The second stores no projection."""

_OFF = ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")
"""Settings of GPT-2 that crosshead does not have."""

_PREFIX = "transformer."
_BUFFERS = (".attn.bias", ".attn.masked_bias")
"""The ends of the names of causal masks, which older files hold."""


def read(path: Path, name: str) -> Imported:
    """Return the GPT-2 of a directory as a bundle."""
    directory = ForeignDirectory(path)
    settings, where = directory.json(CONFIG), path / CONFIG
    _check(settings, where)
    file, weights = stored_weights(directory)
    tokenizer = _tokenizer(directory, settings, where)
    rows = tokenizer.vocabulary.rows
    config = _shape(settings, where, [each for each in (PAD, BOS, UNK) if rows[each] is None])
    stored, place = stored_search(directory, settings, where)
    pad, begin, _, unknown = tokenizer.vocabulary.control
    decode, notes = search_settings(stored, settings, (pad, begin, unknown), place, may_sample=True)
    origin = ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(file))
    named = _named(weights, path / file, tied=config.tie)
    return Imported(language_bundle(config, tokenizer, named, decode, origin, path / file), notes)


def _check(settings: Mapping[str, Any], where: Path) -> None:
    """Raise `ForeignModelError` if a model computes anything that crosshead does not."""
    check_unquantized(settings, where)
    classes = settings.get("architectures") or [_HEADS[0]]
    if not isinstance(classes, list) or not set(map(str, classes)) <= set(_HEADS):
        raise ForeignModelError(f"{where}: architectures is {shown(classes)}, expected {_HEADS[0]}")
    check_values(settings, dict.fromkeys(_OFF, (False, None)), where)


def _shape(settings: Mapping[str, Any], where: Path, absent: list[int]) -> LanguageConfig:
    """Return the shape of a model that lacks some control tokens."""

    def whole(key: str) -> int:
        return whole_number(settings, key, where)

    width = whole("n_embd")
    values = {
        "architecture": "language",
        "d_model": width,
        "layers": whole("n_layer"),
        "heads": whole("n_head"),
        "d_ff": 4 * width if settings.get("n_inner") is None else whole("n_inner"),
        "activation": one_of(
            settings.get("activation_function", "gelu_new"),
            "activation_function",
            ACTIVATIONS,
            where,
        ),
        "norm": "pre",
        "norm_eps": number(settings, "layer_norm_epsilon", where, NORM_EPS),
        "score": "scaled-dot"
        if truth(settings, "scale_attn_weights", where, usual=True)
        else "dot",
        "positions": "learned",
        "max_length": whole("n_positions"),
        "tie": truth(settings, "tie_word_embeddings", where, usual=True),
        "scale_embeddings": False,
        "absent": absent,
        "dropout": number(settings, "resid_pdrop", where, 0.1),
        "attention_dropout": number(settings, "attn_pdrop", where, 0.1),
    }
    return checked(LanguageConfig, values, where)


def _tokenizer(
    directory: ForeignDirectory, settings: Mapping[str, Any], where: Path
) -> JsonTokenizer:
    """Return the tokenizer of a directory."""
    name = TOKENIZER_JSON if directory.has(TOKENIZER_JSON) else VOCAB
    if not directory.has(name):
        raise ForeignModelError(
            f"{directory.path}: has neither {TOKENIZER_JSON} nor {VOCAB} with {MERGES}; {AGAIN}"
        )
    size = whole_number(settings, "vocab_size", where)
    try:
        if name == TOKENIZER_JSON:
            model = directory.bytes(TOKENIZER_JSON)
        else:
            model = _byte_level(directory, settings, where)
        return JsonTokenizer(model, size, _control(parsed(model), settings, where))
    except ValueError as error:
        raise ForeignModelError(f"{directory.path / name}: {error}; {AGAIN}") from None


def _control(tokenizer: Any, settings: Mapping[str, Any], where: Path) -> Control:
    """Return the ids of padding, begin, end and unknown; GPT-2 has the end alone.

    The end token is the one that ends texts, or else the one that begins them.
    """
    pad, begin, end = (
        token_id(settings, f"{each}_token_id", where) for each in ("pad", "bos", "eos")
    )
    end = begin if end is None else end
    if end is None:
        raise ForeignModelError(
            f"{where}: eos_token_id is None, expected the id of the token that ends a text"
        )
    unknown = getattr(tokenizer.model, "unk_token", None) or CONTROL[UNK]
    wanted = (
        tokenizer.token_to_id(CONTROL[PAD]) if pad is None else pad,
        tokenizer.token_to_id(CONTROL[BOS]) if begin in (None, end) else begin,
        tokenizer.token_to_id(unknown),
    )
    # GPT-2 names its end token for several purposes; it stays the end alone.
    first, second, third = (None if each == end else each for each in wanted)
    return first, second, end, third


def _byte_level(directory: ForeignDirectory, settings: Mapping[str, Any], where: Path) -> bytes:
    """Return the `tokenizer.json` of byte-level BPE in the files `vocab.json` and `merges.txt`."""
    library = tokenizers_library()
    options = directory.json(TOKENIZER) if directory.has(TOKENIZER) else {}
    ids = directory.json(VOCAB)
    lines = directory.bytes(MERGES).decode().split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if not all(len(each) == 2 for each in merges):
        raise ForeignModelError(f"{directory.path / MERGES}: expected two pieces a line; {AGAIN}")
    end = settings.get("eos_token_id")
    try:
        found = library.Tokenizer(library.models.BPE(vocab=ids, merges=merges))
        found.pre_tokenizer = library.pre_tokenizers.ByteLevel(
            add_prefix_space=bool(options.get("add_prefix_space"))
        )
        found.decoder = library.decoders.ByteLevel()
        found.add_special_tokens([piece for piece, index in ids.items() if index == end])
    except Exception as error:  # the library raises no narrower class
        raise ForeignModelError(
            f"{directory.path / VOCAB}: no vocabulary of byte-level BPE with the merges of "
            f"{MERGES} ({str(error)[:100]}); {AGAIN}"
        ) from None
    return str(found.to_str()).encode()


def _named(weights: Mapping[str, Tensor], where: Path, *, tied: bool) -> dict[str, Tensor]:
    """Return the weights by the names of `crosshead.addons.interop.weights`.

    Files of `GPT2Model` lack the prefix. A tied projection is left out, which is the embeddings.
    """
    found = {}
    for name, each in weights.items():
        full = name if name.startswith(_PREFIX) or name == GPT2_OUTPUT else _PREFIX + name
        if not full.endswith(_BUFFERS):
            found[full] = each
    if tied:
        check_tied(TOKENS, GPT2_OUTPUT, found, where)
        found.pop(GPT2_OUTPUT, None)
    return found
