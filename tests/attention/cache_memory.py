"""The memory of a key-value cache, whatever it is made of."""

from typing import Any

from torch import Tensor


def held_bytes(cache: Any) -> int:
    """Return the bytes of all tensors that a cache holds."""
    tensors = [
        part
        for value in vars(cache).values()
        for part in (value if isinstance(value, tuple) else (value,))
        if isinstance(part, Tensor)
    ]
    return sum({t.untyped_storage(): t.untyped_storage().nbytes() for t in tensors}.values())
