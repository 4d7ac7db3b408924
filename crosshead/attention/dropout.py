"""Dropout with one random byte an element, drawn from a generator of the thread's own.

Srivastava et al. 2014. PyTorch draws one Bernoulli number an element, on many CPUs serially, which
then takes longer than the layer it regularises. On a CPU one random byte decides here, so the share
that is really dropped is the nearest 256th of `p` (0.3 becomes 77/256), and the scale is that of
this share, as exact as the type allows. Devices other than the CPU use PyTorch's fused kernel.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.nn import functional as F

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integers as wide as numbers of so many bytes."""

_of_this_thread = threading.local()


def dropout(x: Shaped[Tensor, "*shape"], p: float) -> Shaped[Tensor, "*shape"]:
    """`x` with a share `p` of its elements set to zero, and the others scaled by 1/(1 - p).

    `p` is 0 or from 1/256 to 255/256: see `check_share`.
    """
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * keep_factors(x, p)


def check_share(p: float) -> None:
    """Raise `ValueError` for a share of which a byte would make nothing or everything."""
    if p != 0.0 and not 1 / 256 <= p <= 255 / 256:
        raise ValueError(
            f"a dropout of {p:g} cannot be drawn: one random byte decides; give 0, or a share from "
            "1/256 (0.0039) to 255/256 (0.996)"
        )


def keep_factors(x: Shaped[Tensor, "*shape"], p: float) -> Shaped[Tensor, "*shape"]:
    """A tensor like `x`: 0 with probability q = round(256 p)/256, and otherwise 1/(1 - q)."""
    dropped = round(256 * p)
    generator = getattr(_of_this_thread, "generator", None)
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # What follows is vectorised; comparing, and turning what is true into numbers, is not.
    integers = _BITS[x.dtype.itemsize]
    scale = torch.tensor(256 / (256 - dropped), dtype=x.dtype).view(integers)
    kept = random_bytes.to(integers).neg_().add_(dropped - 1)  # negative where kept ...
    kept.bitwise_right_shift_(8 * x.dtype.itemsize - 1)  # ... all ones there, zero elsewhere
    return kept.bitwise_and_(scale).view(x.dtype)


@contextlib.contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """A block in which dropout on a CPU draws from `generator`, in this thread.

    None is PyTorch's own generator, as outside of such a block. All threads share that one: where
    several draw at a time, who gets which numbers would be up to chance.
    """
    before = getattr(_of_this_thread, "generator", None)
    _of_this_thread.generator = generator
    try:
        yield
    finally:
        _of_this_thread.generator = before


def drawing_twice() -> tuple[
    contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]
]:
    """Two blocks; the second draws what the first drew: for activations that are recomputed.

    Only where this thread has a generator of its own; PyTorch sees to its own one.
    """
    generator = getattr(_of_this_thread, "generator", None)
    if generator is None:
        return contextlib.nullcontext(), contextlib.nullcontext()
    again = torch.Generator()
    again.set_state(generator.get_state())
    return contextlib.nullcontext(), drawing_from(again)
