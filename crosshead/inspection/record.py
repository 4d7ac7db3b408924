"""The attention weights of a model: recorded in its calls, and on a text with its pieces."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from crosshead.errors import ConfigError, DataError
from crosshead.inspection.probe import probed
from crosshead.models.base import AttentionKind, Model, TokenModel
from crosshead.tasks.pipeline import AttentionInputs, Pipeline
from crosshead.tasks.token_loss import guided_head

M = TypeVar("M", bound=nn.Module)

NAMES: dict[AttentionKind, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "image": "attention to the image",
}
"""The names of the kinds of attention for people."""


@contextlib.contextmanager
def record_attention(model: nn.Module | Pipeline) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention weights of every call inside the block.

    Inside the block every attention is computed as `explicit` does, because other backends do not
    expose weights. After the block the modules are as before.

    Args:
        model: Any model or module, or the pipeline that `crosshead.load` returns.

    Yields:
        The weights by module name: one tensor "B H Q K" per call. The dictionary fills up as the
            model is called. In beam search the rows of a sentence query its memory together: "Q"
            then counts rows.

    Raises:
        ConfigError: If `model` is no module and no pipeline.
    """
    whole = module_of(model, nn.Module)
    with probed(whole, keeps="weights") as probe:
        yield probe.weights


def module_of(model: Any, wanted: type[M]) -> M:
    """Return a model, or the model of a pipeline."""
    found = model.model if isinstance(model, Pipeline) else model
    if not isinstance(found, wanted):
        raise ConfigError(
            f"expected a model or what crosshead.load returns, found {type(model).__name__}"
        )
    return found


def choose_kind(model: Model, kind: str | None) -> AttentionKind:
    """Return the requested kind of attention, by default the model's first out of `NAMES`."""
    there = [each for each in NAMES if each in model.attentions()]
    if not there:
        raise ConfigError("this model has no attention; train one with attention to look inside")
    if kind is None:
        return there[0]
    for each in there:
        if kind == each:
            return each
    has = " and ".join(f"{each!r} ({NAMES[each]})" for each in there)
    raise ConfigError(f"no attention of kind {kind!r} in this model; it has {has}")


def numbered(noun: str, number: int | None, count: int, kind: AttentionKind) -> list[int]:
    """Return the layer or head of this number, counted from 1, or all of them without a number."""
    if number is None:
        return list(range(1, count + 1))
    if 1 <= number <= count:
        return [number]
    has = f"{noun}s 1 to {count}" if count > 1 else f"only {noun} 1"
    raise ConfigError(f"no {noun} {number} in the {NAMES[kind]}: it has {has}")


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
    reads it, "H W C", `uint8`; otherwise it is None. `supervised` is the head of this kind that
    guided alignment has trained, or None.
    """

    kind: AttentionKind
    queries: list[str]
    keys: list[str]
    weights: Float[Tensor, "L H Q K"]
    pixels: np.ndarray | None = None
    supervised: "Supervised | None" = None

    def _repr_html_(self) -> str:
        """Return the page of this attention, for a notebook."""
        from crosshead.inspection.saved_page import frame_of

        return frame_of(self)


class Supervised(NamedTuple):
    """The head that guided alignment has trained: a word aligner has taught its weights.

    Attributes:
        kind: The kind of attention.
        layer: The layer, counted from 1.
        head: The head, counted from 1.
    """

    kind: AttentionKind
    layer: int
    head: int


def supervised_head(pipeline: Pipeline) -> Supervised | None:
    """Return the head that guided alignment has trained, or None."""
    model = pipeline.model
    if not getattr(pipeline.bundle.config, "guided", False) or not isinstance(model, TokenModel):
        return None
    return Supervised("cross", *guided_head(model))


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
    supervised = supervised_head(pipeline)
    taught = supervised if supervised and supervised.kind == chosen else None
    return AttentionWeights(chosen, read.queries, read.keys, weights, read.pixels, taught)


def recorded_weights(
    model: Model, read: AttentionInputs, kind: AttentionKind
) -> Float[Tensor, "L H Q K"]:
    """Return the weights of all layers and heads while a model reads its inputs."""
    with torch.inference_mode(), record_attention(model) as recorded:
        model(*read.inputs)
    names = {module: name for name, module in model.named_modules()}
    calls = [recorded[names[module]] for module in model.attentions()[kind]]
    return torch.stack([joined(each, len(read.keys)) for each in calls]).float().cpu()


def joined(calls: list[Tensor], keys: int) -> Float[Tensor, "H Q K"]:
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
