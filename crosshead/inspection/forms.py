"""The JSON form of a trace, which pages read."""

import base64
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from crosshead.inspection.record import AttentionWeights, Supervised
from crosshead.inspection.trace import Trace
from crosshead.models.base import AttentionKind


def trace_form(found: Trace) -> dict[str, Any]:
    """Return a trace as JSON values, without its states and edits.

    Tensors are objects of `shape`, `type` and `data`: float32 or uint8, row by row, in base64.
    """
    form = {
        "attention": {
            kind: _attention(
                *found.axes[kind],
                [{each.name: getattr(layer, each.name) for each in dataclasses.fields(layer)}
                 for layer in layers],
            )
            for kind, layers in found.attention.items()
        },
        "supervised": _supervised(found.supervised),
        "found": [each._asdict() for each in found.found],
        "beam": [[each._asdict() for each in rows] for rows in found.beam],
    }  # fmt: skip
    plain = ("source", "read", "target", "ids", "best", "probabilities", "lens", "given")
    return form | {name: getattr(found, name) for name in plain}


def weights_form(found: AttentionWeights) -> dict[str, Any]:
    """Return attention weights as a trace of one kind of attention alone."""
    layers = [{"weights": each} for each in found.weights]
    return {
        "attention": {found.kind: _attention(found.queries, found.keys, layers)},
        "supervised": _supervised(found.supervised),
    }


def _attention(
    queries: list[str], keys: list[str], layers: Iterable[Mapping[str, Tensor]]
) -> dict[str, Any]:
    """Return one kind of attention: its axes and its layers."""
    found = [{name: packed(each) for name, each in layer.items()} for layer in layers]
    return {"queries": queries, "keys": keys, "layers": found}


def _supervised(found: Supervised | None) -> dict[AttentionKind | str, Any] | None:
    """Return the head that guided alignment has trained."""
    return found and found._asdict()


def packed(tensor: Tensor, kind: torch.dtype = torch.float32) -> dict[str, Any]:
    """Return a tensor as its shape, its type and its data."""
    data = tensor.to(torch.uint8 if tensor.dtype == torch.bool else kind).contiguous().numpy()
    data = data.astype(data.dtype.newbyteorder("<"))
    encoded = base64.b64encode(data.tobytes()).decode()
    return {"shape": [*tensor.shape], "type": str(data.dtype), "data": encoded}
