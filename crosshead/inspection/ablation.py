"""Ablation of attention heads."""

import contextlib
import operator
from collections.abc import Iterable, Iterator
from typing import Any

from crosshead.errors import ConfigError
from crosshead.inspection.edits import HeadOff, changes
from crosshead.inspection.probe import probed
from crosshead.inspection.record import choose_kind, module_of
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
    edits = [HeadOff(choose_kind(whole, kind), *_numbers(pair)) for pair in heads]
    with probed(whole, *changes(whole, edits), keeps="nothing"):
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
