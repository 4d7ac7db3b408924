"""The attention weights of a bundle on a text, and the pieces that they stand between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.data.batching import collate
from crosshead.data.text.streams import encode_text, pieces_of
from crosshead.errors import ConfigError, DataError
from crosshead.inspection.record import choose_kind, record_attention
from crosshead.models.base import AttentionKind, RememberingModel, Task
from crosshead.pipelines.base import Pipeline
from crosshead.pipelines.mask_filler import MARK, Filler
from crosshead.pipelines.text_generator import Writer
from crosshead.pipelines.translator import LONGEST_SCORED, Translator
from crosshead.vocabulary import EOS, MASK


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
    read = _READ[pipeline.bundle.config.task](pipeline, text, target, chosen)
    with torch.inference_mode(), record_attention(model) as recorded:
        model.features(*read.inputs)
    names = {module: name for name, module in model.named_modules()}
    layers = [
        _joined(recorded[names[module]], len(read.keys)) for module in model.attentions()[chosen]
    ]
    return AttentionWeights(chosen, read.queries, read.keys, torch.stack(layers).float().cpu())


class _Read(NamedTuple):
    """The inputs of a model, and the pieces along the axes of its attention."""

    inputs: tuple[Tensor, ...]
    queries: list[str]
    keys: list[str]


def _pair(translator: Any, text: str, target: str | None, kind: AttentionKind) -> _Read:
    """A source and its target, the model's own where none is given."""
    assert isinstance(translator, Translator)
    if kind == "encoder":
        if target is not None:
            raise ConfigError("the encoder does not see the target; leave the target out")
        target = ""
    elif target is None:
        [best] = translator.translate([text])[0]
        if best.was_split:
            raise DataError(
                "the text is longer than the model translates in one piece; give a sentence of it"
            )
        target = best.text
    bundle = translator.bundle
    examples = translator.examples([text], [target])
    [(source_ids, target_ids)] = examples
    batch = collate(examples, [0], bundle.specials.start).to(translator.device)
    source = bundle.source_tokenizer.pieces([*source_ids, EOS])
    pieces = bundle.target_tokenizer.pieces
    if kind == "encoder":
        return _Read(batch.inputs, source, source)
    if kind == "decoder":
        read = pieces([bundle.specials.start, *target_ids])
        return _Read(batch.inputs, read, read)
    return _Read(batch.inputs, pieces([*target_ids, EOS]), source)


def _text(writer: Any, text: str, target: str | None, kind: AttentionKind) -> _Read:
    """A text behind the end of a line, as it is generated."""
    assert isinstance(writer, Writer)
    ids = [EOS, *encode_text(writer.tokenizer, text).tolist()]
    most = LONGEST_SCORED if isinstance(writer.model, RememberingModel) else writer.context
    if len(ids) > most:
        raise DataError(
            f"the text has {len(ids):,} tokens, and the model reads {most:,}; shorten it"
        )
    return _alone(writer, ids, target)


def _hidden(filler: Any, text: str, target: str | None, kind: AttentionKind) -> _Read:
    """A text between two ends of lines, with or without marks."""
    assert isinstance(filler, Filler)
    return _alone(filler, filler.encoded(text).tolist(), target)


def _alone(pipeline: Pipeline, ids: list[int], target: str | None) -> _Read:
    """A text by itself, which is queries and keys."""
    if target is not None:
        raise ConfigError(
            f"this model {pipeline.does}, it does not translate; leave the target out"
        )
    read = [
        MARK if index == MASK else piece
        for index, piece in zip(ids, pieces_of(pipeline.tokenizer, ids), strict=True)
    ]
    return _Read((torch.tensor([ids], device=pipeline.device),), read, read)


_READ: dict[Task, Callable[[Any, str, str | None, AttentionKind], _Read]] = {
    "translation": _pair,
    "language": _text,
    "masked": _hidden,
}


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
