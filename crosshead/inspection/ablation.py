"""Ablation of attention heads."""

import contextlib
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from crosshead.attention.attend import Attention
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.errors import ConfigError
from crosshead.inspection.record import choose_kind, module_of, numbered
from crosshead.models.base import Model
from crosshead.tasks.pipeline import Pipeline


@contextlib.contextmanager
def without_heads(
    model: Model | Pipeline, heads: Iterable[tuple[int, int]], kind: str | None = None
) -> Iterator[None]:
    """Ablate attention heads inside the block: they contribute nothing to the output.

    This is the mask xi_h = 0 of Michel et al. It equals setting the rows of W^O that belong to the
    heads to zero, but changes no weight. The only head of a recurrent or convolutional model then
    gives a context of zeros. After the block the model is as before, even if the block raises an
    exception.

    Args:
        model: The pipeline that `crosshead.load` returns, or its model.
        heads: Pairs (layer, head), both counted from 1 as in the pictures.
        kind: "cross", "encoder" or "decoder", as in `attention_weights`. By default cross-attention
            if the model has it, or else its only kind.

    Yields:
        Nothing; the heads are ablated until the block ends.

    Raises:
        ConfigError: If the model has no attention of this kind, or no such layer or head, or an
            argument is of the wrong type.

    Reference:
        Michel et al. 2019, section 2.3; Vaswani et al. 2017, section 3.2.2 (W^O).
    """
    whole = module_of(model, Model)
    chosen = choose_kind(whole, kind)
    modules = whole.attentions()[chosen]
    away: dict[int, set[int]] = {}
    for pair in heads:
        layer, head = _numbers(pair)
        numbered("layer", layer, len(modules), chosen)
        numbered("head", head, modules[layer - 1].heads, chosen)
        away.setdefault(layer, set()).add(head)
    with contextlib.ExitStack() as undo:
        for layer, numbers in away.items():
            undo.callback(_silenced(modules[layer - 1], sorted(numbers)).remove)
        yield


def _numbers(pair: Any) -> tuple[int, int]:
    """Return the layer and the head of a pair."""
    try:
        layer, head = map(operator.index, pair)
    except (TypeError, ValueError):
        raise ConfigError(
            f"heads: expected pairs (layer, head) such as (1, 2), found {pair!r}"
        ) from None
    return layer, head


def _silenced(attention: Attention, heads: list[int]) -> RemovableHandle:
    """Make heads of a module output zeros until the returned handle is removed."""
    if not isinstance(attention, MultiHeadAttention):  # a single head, and no W^O
        return attention.register_forward_hook(
            lambda module, inputs, output: torch.zeros_like(output)
        )
    width = attention.d_value
    columns = torch.tensor([(head - 1) * width + n for head in heads for n in range(width)])

    def silence(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
        [outputs] = inputs
        return (outputs.index_fill(-1, columns.to(outputs.device), 0),)

    return attention.output.register_forward_pre_hook(silence)
