"""Dropout with one random byte an element."""

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Set a share `p` of the elements to zero in training and scale the others by 1/(1 - p).

    Srivastava et al. 2014. PyTorch draws one Bernoulli number an element, on many CPUs serially,
    which then takes longer than the layer it regularises. On a CPU one random byte decides here, so
    the share that is really dropped is the nearest 256th of `p` (0.3 becomes 77/256), and the scale
    is that of this share, as exact as the type allows. Devices other than the CPU use PyTorch's
    fused kernel. `p` is 0 or from 1/256 to 255/256 (`ValueError`), on any device.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        check_share(p)
        self.p = p

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """`x`, thinned out while training."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * keep_factors(x, self.p)

    def extra_repr(self) -> str:
        """The share, for `print(model)`."""
        return f"p={self.p}"


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
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
    return (random_bytes >= dropped).to(x.dtype).mul_(256 / (256 - dropped))
