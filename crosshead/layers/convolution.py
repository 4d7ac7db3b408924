"""Convolutions over positions as products of windows with a matrix, weight-normalised and gated.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", sections 3.2 and 3.5.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def windows(x: Float[Tensor, "B W D"], kernel: int, dilation: int = 1) -> Float[Tensor, "B T KD"]:
    """Every `kernel` vectors at distances of `dilation`, the earliest first, side by side.

    There are `T = W - (kernel - 1) * dilation` of them: what stands outside of the sequence, zeros
    or a past, has to be in `x`. A convolution is a linear layer of its windows, and one large
    product is what matrix libraries are best at.
    """
    if kernel == 1:
        return x
    length = x.shape[1] - (kernel - 1) * dilation
    return torch.cat([x[:, j * dilation :][:, :length] for j in range(kernel)], dim=-1)


class WeightNormLinear(nn.Module):
    """W x + b with rows W_i = g_i v_i / |v_i| (Salimans & Kingma 2016, Eq. 2).

    Learned are the directions v and the lengths g, by themselves. At the start W is v, whose
    elements are drawn from N(0, variance), and biases are zero.
    """

    def __init__(self, d_in: int, d_out: int, variance: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(d_out, d_in))
        nn.init.normal_(self.direction, std=variance**0.5)
        self.length = nn.Parameter(torch.linalg.vector_norm(self.direction.detach(), dim=1))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def weight(self) -> Float[Tensor, "O I"]:
        """W."""
        lengths = torch.linalg.vector_norm(self.direction, dim=1)
        return self.direction * (self.length / lengths)[:, None]

    def forward(self, x: Float[Tensor, "*batch I"]) -> Float[Tensor, "*batch O"]:
        """Apply the linear map to every vector."""
        return F.linear(x, self.weight(), self.bias)


class GatedConvolution(nn.Module):
    """v(W [x_1; ...; x_k] + b) of every window, v([A; B]) = A * sigmoid(B) (section 3.2).

    v is the gated linear unit of Dauphin et al. 2017. `keep` is the share of its inputs that
    dropout lets through: elements of W begin as N(0, 4 keep / n), n = k D of them a row, so that
    the variance of what comes in is that of what goes out (section 3.5).
    """

    def __init__(self, d_model: int, kernel: int, keep: float) -> None:
        super().__init__()
        self.kernel = kernel
        inputs = kernel * d_model
        self.linear = WeightNormLinear(inputs, 2 * d_model, 4 * keep / inputs)

    def forward(self, x: Float[Tensor, "B W D"]) -> Float[Tensor, "B T D"]:
        """One vector for every window: `T = W - (kernel - 1)`."""
        return F.glu(self.linear(windows(x, self.kernel)), dim=-1)
