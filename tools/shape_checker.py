"""The checker that pytest puts on every annotated function of the packages in `pyproject.toml`.

It is beartype, which with jaxtyping checks types and shapes. Two kinds of annotation need help: a
Protocol is checked by the methods it names only where it is marked as checkable at run time, and
`Self` means nothing to a method that is decorated outside its class.

A check takes longer than most of what it checks. So each test checks its first calls, and a
training of hundreds of updates goes on without.
"""

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast, get_args, get_origin, runtime_checkable

from beartype import BeartypeConf, FrozenDict, beartype
from jaxtyping import config

F = TypeVar("F", bound=Callable[..., Any])
CONF = BeartypeConf(hint_overrides=FrozenDict({Self: Any}), is_pep484_tower=True)  # int is a float
CHECKS = 500
"""Checks of each test: of arguments, and of results."""

_left = CHECKS
_wanted = not config.jaxtyping_disable


def begin_test() -> None:
    """Check the next calls again."""
    global _left
    _left = CHECKS
    config.update("jaxtyping_disable", not _wanted)


def check(function: F) -> F:
    """Return a function that checks arguments and result in the first calls of each test."""
    for hint in getattr(function, "__annotations__", {}).values():
        _make_checkable(hint)
    checked = beartype(conf=CONF)(function)

    @functools.wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        global _left
        _left -= 1
        if _left <= 0:
            config.update("jaxtyping_disable", True)
        return checked(*arguments, **named)

    return cast(F, counted)


def _make_checkable(hint: Any) -> None:
    """Mark the protocols in an annotation as checkable at run time."""
    if getattr(hint, "_is_protocol", False) and isinstance(hint, type):
        runtime_checkable(hint)
    if isinstance(hint, TypeVar):
        _make_checkable(hint.__bound__)
    for part in (get_origin(hint), *get_args(hint)):
        if part is not None:
            _make_checkable(part)
