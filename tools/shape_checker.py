"""The checker that pytest puts on every annotated function of the packages in `pyproject.toml`.

It is beartype, which with jaxtyping checks types and shapes at each call. Two kinds of annotation
need help: a Protocol is checked by the methods it names only where it is marked as checkable at run
time, and `Self` means nothing to a method that is decorated outside its class.
"""

from collections.abc import Callable
from typing import Any, Self, TypeVar, get_args, get_origin, runtime_checkable

from beartype import BeartypeConf, FrozenDict, beartype

F = TypeVar("F", bound=Callable[..., Any])
CONF = BeartypeConf(hint_overrides=FrozenDict({Self: Any}), is_pep484_tower=True)  # int is a float


def check(function: F) -> F:
    """`function` with its arguments and its result checked at each call."""
    for hint in getattr(function, "__annotations__", {}).values():
        _make_checkable(hint)
    return beartype(conf=CONF)(function)


def _make_checkable(hint: Any) -> None:
    """Mark the protocols in an annotation as checkable at run time."""
    if getattr(hint, "_is_protocol", False) and isinstance(hint, type):
        runtime_checkable(hint)
    if isinstance(hint, TypeVar):
        _make_checkable(hint.__bound__)
    for part in (get_origin(hint), *get_args(hint)):
        if part is not None:
            _make_checkable(part)
