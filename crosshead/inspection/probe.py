"""Watching a model compute: its attention and its states, with edits in force.

`probed` is the only place that hooks into a model. It sets the backend and the observer of every
attention and hooks on the layers of every stack, and takes them all away again. So a model has no
state of it, and outside the block nothing is slower or different.

Axes: `B` batch, `H` heads, `Q` query positions, `K` key positions, `E` per-head width, `D` width,
`P` positions.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from crosshead.attention.attend import Attention, Backend, Combine, Observe, attend, explicit
from crosshead.attention.block_sparse import BlockSparseMask
from crosshead.attention.scores import RelativeOffset, Score
from crosshead.layers.layer_stack import LayerStack


class AttentionCall(NamedTuple):
    """The tensors of one call of an attention.

    Attributes:
        query: Queries of each head, "B H Q E".
        key: Keys of each head, "B H K E".
        value: Values of each head, "B H K E".
        scores: Scores before the mask and the softmax, "B H Q K".
        mask: True where a query may attend, "B H Q K".
        weights: Weights, "B H Q K".
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    mask: Tensor
    weights: Tensor


class AttentionEdit:
    """A change of one attention; this one changes nothing.

    `positions` are those of the queries, and `first` is that of the first key, if the text attends
    to itself.
    """

    def mask(
        self, allowed: Bool[Tensor, "B H Q K"], positions: Int[Tensor, " Q"], first: int
    ) -> Bool[Tensor, "B H Q K"]:
        """Return what the queries may attend to."""
        return allowed

    def weights(
        self,
        weights: Float[Tensor, "B H Q K"],
        allowed: Bool[Tensor, "B H Q K"],
        positions: Int[Tensor, " Q"],
        first: int,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights that combine the values."""
        return weights

    def output(self, heads: Float[Tensor, "B H Q E"]) -> Float[Tensor, "B H Q E"]:
        """Return the outputs of the heads."""
        return heads


StateEdit = Callable[[Float[Tensor, "B P D"], int], Float[Tensor, "B P D"]]
"""A function of the states at a site, and the position of the first, that returns other states."""

Site = tuple[str, int]
"""The name of a stack, and a layer of it: 0 for what enters its first layer, and n for what leaves
layer n."""


@dataclass
class Probe:
    """The record of a model since `probed` began.

    Attributes:
        calls: The calls of each attention, by the name of its module.
        weights: The weights of these calls, "B H Q K" each.
        states: The states at each site, "B P D" a call.
        step: The position of the first token that a decoding step feeds to all rows, and the number
            of tokens of each row; None where a model reads a whole text.
    """

    calls: dict[str, list[AttentionCall]] = field(default_factory=dict)
    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    states: dict[Site, list[Tensor]] = field(default_factory=dict)
    step: tuple[int, int] | None = None


def stacks_of(model: nn.Module) -> dict[str, LayerStack[nn.Module]]:
    """Return the stacks of layers of a model by their names."""
    return {name: each for name, each in model.named_modules() if isinstance(each, LayerStack)}


@contextlib.contextmanager
def probed(
    model: nn.Module,
    attention_edits: Mapping[nn.Module, Sequence[AttentionEdit]] | None = None,
    state_edits: Mapping[Site, Sequence[StateEdit]] | None = None,
    *,
    keeps: Literal["all", "weights", "nothing"] = "all",
) -> Iterator[Probe]:
    """Watch a model inside the block, with changes in force. Nothing of it stays behind.

    The changes are those of each attention, and those of the states at each site. The probe fills
    up as the model is called. Blocks may be nested, and may end in any order.
    """
    probe, changed, states = Probe(), attention_edits or {}, state_edits or {}
    with contextlib.ExitStack() as undo:
        for name, module in model.named_modules():
            if isinstance(module, Attention) and (keeps != "nothing" or module in changed):
                watcher = _Watcher(probe, changed.get(module, ()))
                if keeps != "nothing":
                    watcher.weights = probe.weights.setdefault(name, [])
                if keeps == "all":
                    watcher.calls = probe.calls.setdefault(name, [])
                undo.callback(_watched(module, watcher))
        for name, stack in stacks_of(model).items():
            for number, layer in enumerate([stack.layers[0], *stack.layers]):
                site = name, number
                if keeps == "all" or site in states:
                    kept = probe.states.setdefault(site, []) if keeps == "all" else None
                    passed = _Passed(states.get(site, ()), kept)
                    undo.callback(_hooked(layer, passed, enters=number == 0).remove)
        yield probe


@dataclass(eq=False)
class _Watcher:
    """The part of one probe in one attention: its changes, and its record."""

    probe: Probe
    edits: Sequence[AttentionEdit]
    weights: list[Tensor] | None = None
    calls: list[AttentionCall] | None = None
    read: int = 0
    """The number of queries so far."""

    def positions(self, query: Tensor) -> Int[Tensor, " Q"]:
        """Return the positions of queries, which continue those of earlier calls."""
        numbers = torch.arange(query.shape[2], device=query.device)
        if self.probe.step is not None:
            first, fed = self.probe.step
            return first + numbers % fed  # the queries of all rows may be in one call
        self.read += len(numbers)
        return numbers + self.read - len(numbers)


def _watched(module: Attention, watcher: _Watcher) -> Callable[[], None]:
    """Let a watcher watch an attention; return the function that ends it."""
    before = module.observe, module.backend
    watched = before[1]
    if not isinstance(watched, _Watched):
        watched = _Watched(before)
        module.observe, module.backend = watched.observe, watched
    watched.watchers.append(watcher)

    def end() -> None:
        watched.watchers.remove(watcher)
        if not watched.watchers:
            module.observe, module.backend = watched.before

    return end


class _Watched:
    """The backend of an attention that probes watch: it computes as `explicit` does."""

    def __init__(self, before: tuple[Observe | None, Backend | None]) -> None:
        self.before = before
        self.watchers: list[_Watcher] = []

    def observe(self, weights: Float[Tensor, "B H Q K"]) -> None:
        """Keep the weights of a call. Those of local attention have their Gaussian."""
        for watcher in self.watchers:
            if watcher.weights is not None:
                watcher.weights.append(weights.detach())

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K Ek"],
        value: Float[Tensor, "#B #H K Ev"],
        *,
        score: Score,
        mask: Bool[Tensor, "#B #H #Q #K"] | BlockSparseMask | None,
        combine: Combine,
        relative: RelativeOffset,
        dropout: float,
        observe: Observe | None,
    ) -> Float[Tensor, "B H Q Ev"]:
        """Compute the outputs of attention, with the changes of all watchers in turn."""
        offset, shape = relative.offset or 0, (*query.shape[:3], key.shape[2])
        placed = [(each, each.positions(query)) for each in self.watchers]
        edits = [
            (edit, positions, int(positions[0]) - offset)
            for watcher, positions in placed
            for edit in watcher.edits
        ]
        mask = dense(mask) if isinstance(mask, BlockSparseMask) else mask
        allowed = query.new_ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
        for edit, positions, first in edits:
            allowed = edit.mask(allowed, positions, first)

        def combined(weights: Tensor, value: Tensor, relative: RelativeOffset) -> Tensor:
            for edit, positions, first in edits:
                weights = edit.weights(weights, allowed, positions, first)
            if observe is not None:
                observe(weights)
            return combine(weights, value, relative)

        heads = attend(
            query, key, value, mask=allowed, score=score, combine=combined, offset=offset,
            dropout=dropout, backend=explicit,
        )  # fmt: skip
        for edit, *_ in edits:
            heads = edit.output(heads)
        for watcher in self.watchers:
            if watcher.calls is not None and watcher.weights is not None:
                with torch.no_grad():
                    scores = score(query, key, relative)
                kept = query.detach(), key.detach(), value.detach(), scores, allowed
                watcher.calls.append(AttentionCall(*kept, watcher.weights[-1]))
        return heads


@dataclass
class _Passed:
    """The states that pass a site, with changes."""

    edits: Sequence[StateEdit]
    states: list[Tensor] | None
    read: int = 0
    """The number of positions so far."""

    def __call__(self, x: Float[Tensor, "B P D"]) -> Float[Tensor, "B P D"]:
        """Return the states that go on."""
        for edit in self.edits:
            x = edit(x, self.read)
        self.read += x.shape[1]
        if self.states is not None:
            self.states.append(x.detach())
        return x


def _hooked(layer: nn.Module, passed: _Passed, *, enters: bool) -> RemovableHandle:
    """Let the states that enter or leave a layer pass a site."""
    if enters:
        return layer.register_forward_pre_hook(lambda _, inputs: (passed(inputs[0]), *inputs[1:]))
    return layer.register_forward_hook(lambda _, inputs, output: passed(output))


def dense(mask: BlockSparseMask) -> Bool[Tensor, "B H T T"]:
    """Return a block-sparse mask as a matrix."""
    parts = [part.additive.eq(0).float().flatten(0, 1) for part in mask.parts]
    return mask.to_dense(parts).bool() & mask.reachable
