"""Changes of what a model computes, for `trace`.

Axes: `B` batch, `H` heads, `Q` query positions, `K` key positions, `E` per-head width, `D` width,
`P` positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from crosshead.errors import ConfigError
from crosshead.inspection.probe import AttentionEdit, Site, StateEdit, stacks_of
from crosshead.inspection.record import choose_kind, numbered
from crosshead.models.base import AttentionKind, Model

if TYPE_CHECKING:
    from crosshead.inspection.trace import Trace

__all__ = ["ForbiddenEdge", "GivenWeights", "HeadOff", "Patch", "Prefix"]


@dataclass(frozen=True)
class _AttentionChange(AttentionEdit):
    """A change of one head, or of all heads of a layer.

    Attributes:
        kind: "cross", "encoder", "decoder" or "image".
        layer: The layer, counted from 1.
        head: The head, counted from 1; None for all heads of the layer.
    """

    kind: AttentionKind
    layer: int
    head: int | None = None

    def _keys(self, count: int, first: int) -> range:
        """Return the positions of keys."""
        first = first if self.kind in ("encoder", "decoder") else 0
        return range(first, first + count)

    def _check(self, model: Model) -> None:
        """Raise `ConfigError` if a model has no such head."""
        modules = model.attentions()[choose_kind(model, self.kind)]
        [layer] = numbered("layer", self.layer, len(modules), self.kind)
        numbered("head", self.head, modules[layer - 1].heads, self.kind)

    @property
    def heads(self) -> slice:
        """The heads that change."""
        return slice(None) if self.head is None else slice(self.head - 1, self.head)


@dataclass(frozen=True)
class HeadOff(_AttentionChange):
    """A head, or all heads of a layer, that contribute nothing: the mask xi_h = 0.

    It equals rows of zeros in W^O.

    Attributes:
        kind: "cross", "encoder", "decoder" or "image".
        layer: The layer, counted from 1.
        head: The head, counted from 1; None for all heads of the layer.

    Reference:
        Michel et al. 2019, section 2.3.
    """

    def output(self, heads: Float[Tensor, "B H Q E"]) -> Float[Tensor, "B H Q E"]:
        """Return zeros for the heads that are off."""
        kept = torch.ones(heads.shape[1], 1, 1, dtype=heads.dtype, device=heads.device)
        kept[self.heads] = 0
        return heads * kept


@dataclass(frozen=True)
class GivenWeights(_AttentionChange):
    """A head, or all heads of a layer, with weights that do not look at the text.

    "uniform" gives all keys that a query may attend to the same weight, and "diagonal" the whole
    weight to the key at the query's own position, or to the last key.
    """

    shape: Literal["uniform", "diagonal"] = "uniform"

    def __post_init__(self) -> None:
        if self.shape not in ("uniform", "diagonal"):
            raise ConfigError(f"shape: expected 'uniform' or 'diagonal', found {self.shape!r}")

    def weights(
        self,
        weights: Float[Tensor, "B H Q K"],
        allowed: Bool[Tensor, "B H Q K"],
        positions: Int[Tensor, " Q"],
        first: int,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the given weights in place of the heads' own."""
        given = weights.clone()
        if self.shape == "uniform":
            even = allowed.to(weights.dtype)
            given[:, self.heads] = (even / even.sum(-1, keepdim=True).clamp(min=1))[:, self.heads]
        else:
            keys = self._keys(weights.shape[-1], first)
            places = (positions - keys.start).clamp(min=0, max=len(keys) - 1)
            eye = torch.eye(len(keys), dtype=weights.dtype, device=weights.device)
            given[:, self.heads] = eye[places]
        return given


@dataclass(frozen=True)
class ForbiddenEdge(_AttentionChange):
    """A query that may not attend to a key. Both are positions, counted from 0."""

    query: int = 0
    key: int = 0

    def mask(
        self, allowed: Bool[Tensor, "B H Q K"], positions: Int[Tensor, " Q"], first: int
    ) -> Bool[Tensor, "B H Q K"]:
        """Return what the queries may attend to, without the edge."""
        keys = self._keys(allowed.shape[-1], first)
        if self.key not in keys:
            return allowed
        place, changed = keys.index(self.key), allowed.clone()
        changed[:, self.heads, (positions == self.query).nonzero()[:, 0], place] = False
        return changed


@dataclass(frozen=True)
class Patch:
    """A state of another trace, put in the place of the model's own.

    Attributes:
        trace: The other trace, of a model of the same width.
        stack: The name of the stack, such as "encoder" or "decoder".
        layer: 0 for what enters the first layer, n for what leaves layer n.
        position: The position, counted from 0.
    """

    trace: "Trace"
    stack: str
    layer: int
    position: int

    def _check(self, model: Model) -> None:
        """Raise `ConfigError` if the model or the other trace has no such state."""
        width = self.trace.states.get(self.stack, [torch.empty(0, model.config.d_model)])[0].shape[
            1
        ]
        if width != model.config.d_model:
            raise ConfigError(
                f"the other trace has states of width {width}, and this model of width "
                f"{model.config.d_model}"
            )
        there = {name: len(stack.layers) for name, stack in stacks_of(model).items()}
        if self.stack not in there:
            has = " and ".join(map(repr, there)) or "none"
            raise ConfigError(f"no stack of layers {self.stack!r} in this model; it has {has}")
        states = self.trace.states.get(self.stack, [])
        if not 0 <= self.layer < min(len(states), there[self.stack] + 1):
            raise ConfigError(
                f"no layer {self.layer} in the {self.stack}: it has 0, what enters the first one, "
                f"to {there[self.stack]}"
            )
        if not 0 <= self.position < len(states[self.layer]):
            raise ConfigError(
                f"no position {self.position} in the {self.stack} of the other trace: it has "
                f"0 to {len(states[self.layer]) - 1}"
            )


@dataclass(frozen=True)
class Prefix:
    """The beginning that the output must have.

    Attributes:
        start: The beginning, as a text in the target language or as token ids.
    """

    start: str | Sequence[int]


Edit = HeadOff | GivenWeights | ForbiddenEdge | Patch | Prefix
"""A change that `trace` takes."""


def changes(
    model: Model, edits: Sequence[Edit]
) -> tuple[dict[nn.Module, list[_AttentionChange]], dict[Site, list[StateEdit]]]:
    """Return the changes of each attention and of each site, after checking that they are there."""
    attentions: dict[nn.Module, list[_AttentionChange]] = {}
    states: dict[Site, list[StateEdit]] = {}
    for edit in edits:
        if isinstance(edit, Prefix):
            continue
        if not isinstance(edit, _AttentionChange | Patch):
            raise ConfigError(f"edits: expected changes such as HeadOff, found {edit!r}")
        edit._check(model)
        if isinstance(edit, Patch):
            states.setdefault((edit.stack, edit.layer), []).append(partial(_patched, edit))
        else:
            attentions.setdefault(model.attentions()[edit.kind][edit.layer - 1], []).append(edit)
    return attentions, states


def _patched(edit: Patch, x: Float[Tensor, "B P D"], first: int) -> Float[Tensor, "B P D"]:
    """Return states whose first one is at a position, with the other state in its place."""
    place = edit.position - first
    if not 0 <= place < x.shape[1]:
        return x
    changed = x.clone()
    changed[:, place] = edit.trace.states[edit.stack][edit.layer][edit.position].to(x)
    return changed
