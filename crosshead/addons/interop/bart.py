"""The names of weights in Hugging Face's BART family, to which Marian and Pegasus belong.

The family packs nothing: queries, keys and values have a matrix each. These names are also the
common form of imports: each toolkit's names are turned into them first.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from crosshead.addons.interop.rows import from_rows, to_rows
from crosshead.layers.restricted import ABSENT
from crosshead.models.base import Model
from crosshead.models.stack import StackConfig
from crosshead.models.transformer import TransformerConfig

SHARED, LOGITS_BIAS, OUTPUT = "model.shared.weight", "final_logits_bias", "lm_head.weight"
"""The names of the joint embeddings, of the output bias and of the output projection."""

EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
"""The names of the embeddings of each side."""

TABLES = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
"""The names of the tables of positions."""

_SELF = (
    ("query", ("self_attn.q_proj",)),
    ("key_value", ("self_attn.k_proj", "self_attn.v_proj")),
    ("output", ("self_attn.out_proj",)),
)
_CROSS = (
    ("cross_attention.query", ("encoder_attn.q_proj",)),
    ("cross_attention.key_value", ("encoder_attn.k_proj", "encoder_attn.v_proj")),
    ("cross_attention.output", ("encoder_attn.out_proj",)),
    ("add_norm_cross.norm", ("encoder_attn_layer_norm",)),
)
_FEEDFORWARD = (
    ("feedforward.inner", ("fc1",)),
    ("feedforward.outer", ("fc2",)),
    ("add_norm_feedforward.norm", ("final_layer_norm",)),
)
_LAYERS = {
    "encoder": (
        *((f"attention.{ours}", theirs) for ours, theirs in _SELF),
        ("add_norm_attention.norm", ("self_attn_layer_norm",)),
        *_FEEDFORWARD,
    ),
    "decoder": (
        *((f"self_attention.{ours}", theirs) for ours, theirs in _SELF),
        ("add_norm_self.norm", ("self_attn_layer_norm",)),
        *_CROSS,
        *_FEEDFORWARD,
    ),
}
"""The modules of a layer, and the modules of the family that each one packs."""


def places(config: TransformerConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a model's parameters outside embeddings and projection, with the family's names."""
    modules = [
        (f"{side}.layers.{layer}.{ours}", [f"model.{side}.layers.{layer}.{each}" for each in names])
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        for layer in range(layers)
        for ours, names in _LAYERS[side]
    ]
    if config.norm == "pre":
        modules += [
            (f"{side}.norm", [f"model.{side}.layer_norm"]) for side in ("encoder", "decoder")
        ]
    for ours, theirs in modules:
        for end in ("weight", "bias"):
            yield f"{ours}.{end}", tuple(f"{each}.{end}" for each in theirs)


def embedding_names(config: TransformerConfig) -> list[str]:
    """Return the names of the matrices of source, target and output; equal names are one matrix."""
    if config.tie == "three-way":
        return [SHARED] * 3
    return [*EMBEDDINGS, EMBEDDINGS[1] if config.tie == "two-way" else OUTPUT]


def to_family(
    config: TransformerConfig, weights: Mapping[str, Tensor], rows: Sequence[Sequence[int | None]]
) -> dict[str, Tensor]:
    """Return the weights of a model under the family's names."""
    found: dict[str, Tensor] = {}
    for ours, theirs in places(config):
        found |= zip(theirs, weights[ours].chunk(len(theirs)), strict=True)
    sides = (rows[0], rows[1], rows[1])
    names = ("source_embeddings.weight", "target_embeddings.weight", "projection.weight")
    for name, ours, side in zip(embedding_names(config), names, sides, strict=True):
        found[name] = to_rows(weights[ours], side)
    bias = weights.get("projection.bias", torch.zeros(len(rows[1])))
    return {**found, LOGITS_BIAS: to_rows(bias, rows[1])[None]}


def from_family(
    config: TransformerConfig, found: Mapping[str, Tensor], rows: Sequence[Sequence[int | None]]
) -> dict[str, Tensor]:
    """Return the parameters of a model, from weights under the family's names.

    A token that the foreign vocabulary lacks gets a zero vector and the output bias `ABSENT`.
    """
    weights = {
        ours: torch.cat([found[each] for each in theirs]).contiguous()
        for ours, theirs in places(config)
    }
    sides = (rows[0], rows[1], rows[1])
    names = ("source_embeddings.weight", "target_embeddings.weight", "projection.weight")
    for name, ours, side in zip(embedding_names(config), names, sides, strict=True):
        weights[ours] = from_rows(found[name], side, 0.0)
    weights["projection.bias"] = from_rows(found[LOGITS_BIAS].flatten(), rows[1], ABSENT)
    return weights


def all_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of a model, shared ones under each of their names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: parameter.detach() for name, parameter in named}


def with_repeated_heads(model: Model) -> dict[str, Tensor]:
    """Return all parameters by name, with as many heads of keys and values as of queries."""
    config, found = model.config, all_parameters(model)
    assert isinstance(config, StackConfig)
    kv_heads = config.kv_heads or config.heads
    for name in [each for each in found if ".key_value." in each]:
        heads = found[name].unflatten(0, (2, kv_heads, config.key_width))
        repeated = heads.repeat_interleave(config.heads // kv_heads, 1)
        found[name] = repeated.flatten(0, 2)
    return found
