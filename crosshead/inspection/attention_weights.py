"""The attention weights of a bundle on a text, with the pieces of the text."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import ConfigError, DataError
from crosshead.inspection.record import choose_kind, record_attention
from crosshead.models.base import AttentionKind, Model
from crosshead.tasks.pipeline import AttentionInputs, Pipeline


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one kind of attention in all layers and heads, and the pieces on both sides.

    `weights[layer - 1, head - 1, q, k]` is the weight of key `k` for query `q`. A row sums to 1,
    except in the local attention of a recurrent model, whose Gaussian reduces the sum
    (`LocalWindow`).

    In cross-attention the queries are target pieces: row t belongs to the position that predicts
    piece t. Keys are the source pieces. Both end with the end of the sentence. In self-attention
    queries and keys are the pieces that the model reads.

    If the keys are the patches of an image alone, row by row, `pixels` is the image as the model
    reads it, "H W C", `uint8`; otherwise it is None.
    """

    kind: AttentionKind
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H Q K"]
    pixels: np.ndarray | None = None


def attention_weights(
    pipeline: Pipeline, text: str, *, target: str | None = None, kind: str | None = None
) -> AttentionWeights:
    """Return the attention weights of a model on a text.

    The model reads the whole text at once, as in training. Decoding step by step gives the same
    weights. The segments of a Transformer-XL are joined: a position also has weights for the
    positions that its segment remembers.

    Args:
        pipeline: The pipeline that `crosshead.load` returns.
        text: A line to translate, or a text. For a masked model it may contain `[MASK]`. For a
            captioner it is the file of an image, and for a multimodal model the file of an image,
            a tab and a sentence.
        target: The translation given to the decoder, by default the model's own.
        kind: "cross" (target to source), "encoder" or "decoder" (self-attention), or "image" (from
            a sentence to the image beside it). By default cross-attention if the model has it, or
            else its only kind.

    Returns:
        The weights of all layers and heads, on the CPU in float32.

    Raises:
        ConfigError: If the model has no attention of this kind, or takes no target, or `pipeline`
            is no pipeline.
        DataError: If the text or the target is empty, or longer than the model reads at once.
    """
    if not isinstance(pipeline, Pipeline):
        raise ConfigError(f"expected what crosshead.load returns, found {type(pipeline).__name__}")
    model = pipeline.bundle.model
    chosen = choose_kind(model, kind)
    if not text.strip():
        raise DataError("the text is empty: there is nothing to attend to; give some words")
    if target is not None and not target.strip():
        raise DataError("the target is empty: give some words, or leave it out")
    read = pipeline.attention_inputs(text, target, chosen)
    weights = recorded_weights(model, read, chosen)
    return AttentionWeights(chosen, read.queries, read.keys, weights, read.pixels)


def recorded_weights(
    model: Model, read: AttentionInputs, kind: AttentionKind
) -> Float[Tensor, "L H Q K"]:
    """Return the weights of all layers and heads while a model reads its inputs."""
    with torch.inference_mode(), record_attention(model) as recorded:
        model(*read.inputs)
    names = {module: name for name, module in model.named_modules()}
    calls = [recorded[names[module]] for module in model.attentions()[kind]]
    return torch.stack([_joined(each, len(read.keys)) for each in calls]).float().cpu()


def _joined(calls: list[Tensor], keys: int) -> Float[Tensor, "H Q K"]:
    """Return the weights of all calls of one layer as one matrix.

    Each call continues the queries of the call before. Queries of a recurrent decoder see all keys.
    Queries of a Transformer-XL see the keys up to the end of their segment.
    """
    rows, end = [], 0
    for weights in calls:
        _, _, queries, seen = weights.shape
        end += queries
        before = 0 if seen == keys else end - seen
        rows.append(torch.nn.functional.pad(weights[0], (before, keys - before - seen)))
    return torch.cat(rows, dim=1)
