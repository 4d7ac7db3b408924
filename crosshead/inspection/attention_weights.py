"""The attention weights of a bundle on a text, and the pieces that they stand between."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import DataError
from crosshead.inspection.record import choose_kind, record_attention
from crosshead.models.base import AttentionKind
from crosshead.pipelines.base import Pipeline


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one kind of attention in every layer and head, and the pieces on both sides.

    `weights[layer - 1, head - 1, q, k]` is the share of key `k` in what query `q` gathers. A row
    sums to 1, except in a recurrent model's local attention, whose Gaussian leaves less
    (`LocalWindow`).

    In cross-attention the queries are target pieces: row t belongs to the position that predicts
    piece t. Keys are the source pieces. Both end with the end of the sentence. In self-attention
    queries and keys are the pieces that the model reads.
    """

    kind: AttentionKind
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H Q K"]


def attention_weights(
    pipeline: Pipeline, text: str, *, target: str | None = None, kind: str | None = None
) -> AttentionWeights:
    """Return the attention weights of a model that reads a text.

    The model reads the text as a whole, as in training. Decoding step by step gives the same
    weights. The segments of a Transformer-XL are joined: a position also has weights for the
    positions that its segment remembers.

    Args:
        pipeline: What `crosshead.load` returns.
        text: A line to translate, or a text; a masked model's may hold `[MASK]`.
        target: The translation that the decoder is given. By default the model's own.
        kind: "cross" (target to source), "encoder" or "decoder" (self-attention). By default
            cross-attention where the model has it, or else its only kind.

    Returns:
        The weights of all layers and heads, on the CPU in float32.

    Raises:
        ConfigError: If the model has no attention of this kind, or no use for a target.
        DataError: If the text is empty, or longer than the model reads at once.
    """
    model = pipeline.bundle.model
    chosen = choose_kind(model, kind)
    if not text.strip():
        raise DataError("the text is empty: there is nothing to attend to; give some words")
    read = pipeline.attention_inputs(text, target, chosen)
    with torch.inference_mode(), record_attention(model) as recorded:
        model(*read.inputs)
    names = {module: name for name, module in model.named_modules()}
    layers = [
        _joined(recorded[names[module]], len(read.keys)) for module in model.attentions()[chosen]
    ]
    return AttentionWeights(chosen, read.queries, read.keys, torch.stack(layers).float().cpu())


def _joined(calls: list[Tensor], keys: int) -> Float[Tensor, "H Q K"]:
    """The weights of the calls of one layer as one matrix.

    Each call goes on with the queries. Those of a recurrent decoder see all keys; those of a
    Transformer-XL see the keys that end with their segment.
    """
    rows, end = [], 0
    for weights in calls:
        _, _, queries, seen = weights.shape
        end += queries
        before = 0 if seen == keys else end - seen
        rows.append(torch.nn.functional.pad(weights[0], (before, keys - before - seen)))
    return torch.cat(rows, dim=1)
