"""Imports of GPT-2 in Hugging Face's form: a directory that `GPT2LMHeadModel` loads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.generation import search_settings, stored_search
from crosshead.addons.interop.imports.huggingface import (
    CONFIG,
    KIND,
    NORM_EPS,
    Activation,
    HuggingFaceSettings,
    merge,
    stored_weights,
)
from crosshead.addons.interop.imports.reading import AGAIN, ForeignDirectory, ForeignModelError
from crosshead.addons.interop.imports.values import Control, checked, text_bundle
from crosshead.addons.interop.weights import ACTIVATIONS, GPT2_OUTPUT, TOKENS, gpt2_places
from crosshead.bundle.origin import ImportOrigin
from crosshead.models.language import LanguageConfig
from crosshead.text.imported import JsonTokenizer, parsed
from crosshead.text.pieces import CONTROL
from crosshead.vocabulary import BOS, PAD, UNK

MODEL_TYPE = "gpt2"
"""The `model_type` of these models."""

TOKENIZER_JSON = "tokenizer.json"


class _Settings(HuggingFaceSettings):
    """The settings of a GPT-2 in `config.json`."""

    # The second class of models stores no projection.
    architectures: list[Literal["GPT2LMHeadModel", "GPT2Model"]] | None = None
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None
    n_positions: int
    activation_function: Activation = "gelu_new"
    layer_norm_epsilon: float = NORM_EPS
    scale_attn_weights: bool | None = True
    resid_pdrop: float | None = 0.1
    attn_pdrop: float | None = 0.1
    scale_attn_by_inverse_layer_idx: Literal[False, None] = False
    reorder_and_upcast_attn: Literal[False, None] = False
    add_cross_attention: Literal[False, None] = False


_PREFIX = "transformer."
_BUFFERS = (".attn.bias", ".attn.masked_bias")
"""The ends of the names of causal masks, which older files hold."""


def read(path: Path, name: str) -> Imported:
    """Return the GPT-2 of a directory as a bundle."""
    directory = ForeignDirectory(path)
    stated, where = directory.json(CONFIG), path / CONFIG
    settings = checked(_Settings, stated, where)
    file, weights = stored_weights(directory)
    tokenizer = _tokenizer(directory, settings, where)
    rows = tokenizer.vocabulary.rows
    config = _shape(settings, where, [each for each in (PAD, BOS, UNK) if rows[each] is None])
    stored, place = stored_search(directory, stated, where)
    pad, begin, _, unknown = tokenizer.vocabulary.control
    decode, notes = search_settings(stored, stated, (pad, begin, unknown), place, may_sample=True)
    origin = ImportOrigin(kind=KIND, name=name, sha256=directory.sha256(file))
    named = _named(weights, path / file, tied=config.tie)
    bundle = text_bundle(
        config,
        (tokenizer, tokenizer),
        lambda both: gpt2_places(config, both[0]),
        named,
        path / file,
        longest_source=config.max_length,
        decode=decode,
        origin=origin,
    )
    return Imported(bundle, notes)


def _shape(settings: _Settings, where: Path, absent: list[int]) -> LanguageConfig:
    """Return the shape of a model that lacks some control tokens."""
    values = {
        "architecture": "language",
        "d_model": settings.n_embd,
        "layers": settings.n_layer,
        "heads": settings.n_head,
        "d_ff": 4 * settings.n_embd if settings.n_inner is None else settings.n_inner,
        "activation": ACTIVATIONS[settings.activation_function],
        "norm": "pre",
        "norm_eps": settings.layer_norm_epsilon,
        "score": "scaled-dot" if settings.scale_attn_weights else "dot",
        "positions": "learned",
        "max_length": settings.n_positions,
        "tie": bool(settings.tie_word_embeddings),
        "scale_embeddings": False,
        "absent": absent,
        "dropout": settings.resid_pdrop or 0.0,
        "attention_dropout": settings.attn_pdrop or 0.0,
    }
    return checked(LanguageConfig, values, where)


def _tokenizer(directory: ForeignDirectory, settings: _Settings, where: Path) -> JsonTokenizer:
    """Return the tokenizer of a directory."""
    if not directory.has(TOKENIZER_JSON):
        raise ForeignModelError(
            f"{directory.path}: has no {TOKENIZER_JSON}; load its tokenizer with AutoTokenizer of "
            "transformers, and write the file with save_pretrained"
        )
    model = directory.bytes(TOKENIZER_JSON)
    try:
        control = _control(parsed(model), settings, where)
        return JsonTokenizer(model, settings.vocab_size, control)
    except ValueError as error:
        raise ForeignModelError(f"{directory.path / TOKENIZER_JSON}: {error}; {AGAIN}") from None


def _control(tokenizer: Any, settings: _Settings, where: Path) -> Control:
    """Return the ids of padding, begin, end and unknown; GPT-2 has the end alone.

    The end token is the one that ends texts, or else the one that begins them.
    """
    pad, begin = settings.pad_token_id, settings.bos_token_id
    end = begin if settings.eos_token_id is None else settings.eos_token_id
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
        merge(found, TOKENS, [GPT2_OUTPUT], where)
    return found
