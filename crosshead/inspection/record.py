"""The kinds of attention of a model, and its weights recorded while it computes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn

from crosshead.attention.attend import Attention, explicit
from crosshead.errors import ConfigError
from crosshead.models.base import AttentionKind, Model

NAMES: dict[AttentionKind, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}
"""The kinds of attention as people read them."""


@contextlib.contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the attention weights of every call inside the block.

    Inside the block, the explicit backend computes every attention, because only that backend has
    weights to show. After the block the modules are as before.

    Args:
        model: Any model or module.

    Yields:
        The weights by the name of the module: one tensor "B H Q K" a call. The dictionary fills up
        as the model is called. In beam search the rows of a sentence query its memory together:
        "Q" then counts rows.
    """
    recorded: dict[str, list[Tensor]] = {}
    before = [
        (name, module, module.observe, module.backend)
        for name, module in model.named_modules()
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


def choose_kind(model: Model, kind: str | None) -> AttentionKind:
    """Return the kind of attention asked for, by default the first of `NAMES` that the model has.

    Raises:
        ConfigError: If the model has no attention, or none of this kind.
    """
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
    """Return a kind of attention and its modules, a layer each; see `choose_kind`."""
    chosen = choose_kind(model, kind)
    return chosen, model.attentions()[chosen]


def check_numbered(what: str, number: int, count: int, kind: AttentionKind) -> None:
    """Raise `ConfigError` for the number of a layer or a head that does not exist."""
    if not 1 <= number <= count:
        numbered = f"{what}s 1 to {count}" if count > 1 else f"{what} 1 alone"
        raise ConfigError(f"no {what} {number} in the {NAMES[kind]}: it has {numbered}")


def _keeper(calls: list[Tensor]) -> Callable[[Tensor], None]:
    return lambda weights: calls.append(weights.detach())
