"""Record the attention weights of a model, and select its kinds of attention."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from crosshead.attention.attend import Attention, explicit
from crosshead.errors import ConfigError
from crosshead.models.base import AttentionKind, Model
from crosshead.tasks.pipeline import Pipeline

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

    Inside the block the explicit backend computes every attention, because other backends do not
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
    recorded: dict[str, list[Tensor]] = {}
    before = [
        (name, module, module.observe, module.backend)
        for name, module in whole.named_modules()
        if isinstance(module, Attention)
    ]
    try:
        for name, module, _, _ in before:
            recorded[name] = []
            module.observe = _keeper(recorded[name])
            module.backend = explicit
        yield recorded
    finally:
        for _, module, observe, backend in before:
            module.observe, module.backend = observe, backend


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


def modules_of(model: Model, kind: str | None) -> tuple[AttentionKind, Sequence[Attention]]:
    """Return a kind of attention and its modules, one per layer."""
    chosen = choose_kind(model, kind)
    return chosen, model.attentions()[chosen]


def check_numbered(noun: str, number: int, count: int, kind: AttentionKind) -> None:
    """Check the number of a layer or a head."""
    if not 1 <= number <= count:
        numbered = f"{noun}s 1 to {count}" if count > 1 else f"only {noun} 1"
        raise ConfigError(f"no {noun} {number} in the {NAMES[kind]}: it has {numbered}")


def _keeper(calls: list[Tensor]) -> Callable[[Tensor], None]:
    return lambda weights: calls.append(weights.detach())
