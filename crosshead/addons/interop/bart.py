"""The weights of a translation model in Hugging Face's BART family."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crosshead.addons.interop.weights import BART, Place, Rows, to_foreign, translation_places
from crosshead.models.transformer import TransformerConfig

SHARED, LOGITS_BIAS, OUTPUT = "model.shared.weight", "final_logits_bias", "lm_head.weight"
"""The names of the joint embeddings, of the output bias and of the output projection."""

EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
"""The names of the embeddings of each side."""

TABLES = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
"""The names of the tables of positions."""


ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
}
"""Activations by Hugging Face's names, of which exports take the first."""


def activation_name(activation: str) -> str:
    """Return Hugging Face's name of an activation."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def matrices(config: TransformerConfig) -> list[str]:
    """Return the names of the matrices of source, target and output; equal names are one matrix."""
    if config.tie == "three-way":
        return [SHARED] * 3
    return [*EMBEDDINGS, EMBEDDINGS[1] if config.tie == "two-way" else OUTPUT]


def places(config: TransformerConfig, rows: Sequence[Rows]) -> list[Place]:
    """Return all parameters of a model of the family."""
    return translation_places(BART, config, matrices(config), LOGITS_BIAS, rows)


def to_family(
    config: TransformerConfig, weights: Mapping[str, Tensor], rows: Sequence[Rows]
) -> dict[str, Tensor]:
    """Return the weights of a model under the family's names; without an output bias, it is 0."""
    weights = {"projection.bias": torch.zeros(len(rows[1])), **weights}
    found = to_foreign(places(config, rows), weights)
    return {**found, LOGITS_BIAS: found[LOGITS_BIAS][None]}
