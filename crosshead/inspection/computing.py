"""The models that a saved page computes itself: their weights, their tokenizers and their search.

`page/computed.mjs` reads the forms that are made here, and computes what `trace` does.
"""

from collections.abc import Iterable
from typing import Any

import torch

from crosshead.inspection.forms import packed
from crosshead.models.transformer import Transformer
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.translation.translator import Translator
from crosshead.text.subwords import BpeTokenizer
from crosshead.text.tokenizers import Tokenizer

LARGEST_EXACT, LARGEST = 8_000_000, 32_000_000
"""The largest number of bytes that weights may have on a page in float32, and in float16."""

MOST_ROWS = 16
"""The largest beam that a page searches with."""

_SETTINGS = {
    "norm", "norm_eps", "activation", "positions", "d_model", "heads", "encoder_layers",
    "decoder_layers",
}  # fmt: skip
_SEARCH = {"beam", "length_penalty", "length_offset", "stop", "max_extra", "min_length"}


def computing_forms(pipelines: Iterable[Pipeline]) -> list[dict[str, Any]] | None:
    """Return the forms of models that a page computes, or None if it cannot compute them all.

    The weights are in float32, or in float16 if they would be larger than `LARGEST_EXACT`.
    """
    each_one = [*pipelines]
    models = [each.model for each in each_one if isinstance(each, Translator) and _is_plain(each)]
    numbers = sum(each.numel() for model in models for each in model.parameters())
    exact, half = (numbers * width * 4 // 3 for width in (4, 2))  # base64 has 4 letters for 3 bytes
    if len(models) < len(each_one) or half > LARGEST:
        return None
    kind = torch.float32 if exact <= LARGEST_EXACT else torch.float16
    return [_form(each, kind) for each in each_one if isinstance(each, Translator)]


def _is_plain(translator: Translator) -> bool:
    """Return whether a page computes what a translator computes."""
    model, bundle, decode = translator.model, translator.bundle, translator.bundle.config.decode
    return (
        type(translator) is Translator
        and type(model) is Transformer
        and model.config.positions in ("sinusoidal", "learned")
        and (model.config.score, model.config.pattern) == ("scaled-dot", "full")
        and all(
            isinstance(each, BpeTokenizer) and each.is_in_order
            for each in (bundle.source_tokenizer, bundle.target_tokenizer)
        )
        and translator.tag is not None
        and not decode.sample
        and decode.beam <= MOST_ROWS
    )


def _form(translator: Translator, kind: torch.dtype) -> dict[str, Any]:
    """Return the form of a model, with weights of a type."""
    bundle, model = translator.bundle, translator.model
    config, specials = bundle.config, bundle.specials
    assert isinstance(model, Transformer)
    shape = model.config
    return {
        "config": {
            **shape.model_dump(include=_SETTINGS),
            "kv_heads": shape.kv_heads or shape.heads,
            "d_key": shape.key_width,
            "d_value": shape.value_width,
        },
        "weights": {
            name: packed(each.detach().cpu(), kind) for name, each in model.named_parameters()
        },
        "source": _pieces(bundle.source_tokenizer),
        "target": None if config.joint_tokenizer else _pieces(bundle.target_tokenizer),
        "start": specials.start,
        "positions": translator.most_positions[1],
        "longest": config.longest_source,
        "most": translator.max_source_length,
        "tag": translator.tag,
        "decode": {
            **config.decode.model_dump(include=_SEARCH),
            "forbidden": [*specials.forbidden, *specials.marks],
            "bytes": [*specials.high_bytes],
        },
    }


def _pieces(tokenizer: Tokenizer) -> dict[str, list[str]]:
    """Return the pieces of a tokenizer, and those that are never split."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return {"pieces": pieces, "special": tokenizer.special}
