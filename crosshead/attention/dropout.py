"""Dropout with one random byte per element, from a generator that may belong to the thread.

Srivastava et al. 2014. PyTorch draws one Bernoulli number per element, on many CPUs serially. That
then takes longer than the layer it regularises. Here, on a CPU, one random byte decides. So the
share that is dropped is the nearest 256th of `p` (0.3 becomes 77/256). The scale belongs to this
share and is as exact as the type allows. Devices other than the CPU use PyTorch's fused kernel.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional as F

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integer type as wide as a number of this many bytes."""

_of_this_thread = threading.local()


def dropout(x: Shaped[Tensor, "*shape"], p: float) -> Shaped[Tensor, "*shape"]:
    """Set random elements to zero, and scale the other elements by 1/(1 - p)."""
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * keep_factors(x, p)


class Dropout(nn.Module):
    """`dropout` in training, and the identity otherwise."""

    def __init__(self, p: float) -> None:
        super().__init__()
        check_share(p)
        self.p = p

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Return `x`, with dropout in training."""
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        """Return the share, for `print(model)`."""
        return f"p={self.p}"


def check_share(p: float, name: str = "dropout") -> None:
    """Check that one random byte can draw this share."""
    if p != 0.0 and not 1 / 256 <= p <= 255 / 256:
        raise ValueError(
            f"{name} {p:g} cannot be drawn from one random byte; give 0, or a share from "
            "1/256 (0.0039) to 255/256 (0.996)"
        )


def keep_factors(x: Shaped[Tensor, "*shape"], p: float) -> Shaped[Tensor, "*shape"]:
    """Draw the factors of dropout on a CPU."""
    dropped = round(256 * p)
    generator = getattr(_of_this_thread, "generator", None)
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
    # Integer arithmetic is vectorised; a comparison and the conversion of its result are not.
    integers = _BITS[x.dtype.itemsize]
    scale = torch.tensor(256 / (256 - dropped), dtype=x.dtype).view(integers)
    kept = random_bytes.to(integers).neg_().add_(dropped - 1)  # negative where kept ...
    kept.bitwise_right_shift_(8 * x.dtype.itemsize - 1)  # ... all ones there, zero elsewhere
    return kept.bitwise_and_(scale).view(x.dtype)


@contextlib.contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Let dropout on a CPU draw from a generator, in this thread and inside the `with` block.

    All threads share PyTorch's own generator. If several threads draw from it at a time, the
    numbers that each one gets are not reproducible.
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
    """Return two contexts; dropout in the second draws the same numbers as in the first.

    Recomputed activations need this. Both contexts do nothing unless this thread has its own
    generator, because PyTorch restores its own generator itself.
    """
    generator = getattr(_of_this_thread, "generator", None)
    if generator is None:
        return contextlib.nullcontext(), contextlib.nullcontext()
    again = torch.Generator()
    again.set_state(generator.get_state())
    return contextlib.nullcontext(), drawing_from(again)
