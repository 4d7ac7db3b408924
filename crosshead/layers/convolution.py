"""Gated, weight-normalised convolutions, computed as products of windows with a matrix.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", sections 3.2 and 3.5.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def windows(x: Float[Tensor, "B W D"], kernel: int, dilation: int = 1) -> Float[Tensor, "B T KD"]:
    """Return the windows of a convolution, each as one long vector.

    A convolution is a linear layer of its windows. Matrix libraries compute this one large product
    fastest.
    """
    if kernel == 1:
        return x
    length = x.shape[1] - (kernel - 1) * dilation
    return torch.cat([x[:, j * dilation :][:, :length] for j in range(kernel)], dim=-1)


class WeightNormLinear(nn.Module):
    """A weight-normalised linear layer: W x + b with rows W_i = g_i v_i / |v_i|.

    The directions v and the lengths g are learned separately. At the start W equals v, and biases
    are zero.

    Reference:
        Salimans and Kingma 2016, Eq. 2.
    """

    def __init__(self, d_in: int, d_out: int, variance: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(d_out, d_in))
        nn.init.normal_(self.direction, std=variance**0.5)
        self.length = nn.Parameter(torch.linalg.vector_norm(self.direction.detach(), dim=1))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def weight(self) -> Float[Tensor, "O I"]:
        """Return the matrix W, "O I"."""
        lengths = torch.linalg.vector_norm(self.direction, dim=1)
        return self.direction * (self.length / lengths)[:, None]

    def forward(self, x: Float[Tensor, "*batch I"]) -> Float[Tensor, "*batch O"]:
        """Apply the linear map to every vector."""
        return F.linear(x, self.weight(), self.bias)


class GatedConvolution(nn.Module):
    """A gated convolution: v(W [x_1; ...; x_k] + b) of every window, v([A; B]) = A * sigmoid(B).

    v is the gated linear unit. Elements of W are drawn from N(0, 4 keep / n), with n = k D elements
    per row, so that outputs have the variance of the inputs.

    Reference:
        Gehring et al. 2017, sections 3.2 and 3.5; Dauphin et al. 2017 (gated linear unit).
    """

    def __init__(self, d_model: int, kernel: int, keep: float) -> None:
        super().__init__()
        self.kernel = kernel
        inputs = kernel * d_model
        self.linear = WeightNormLinear(inputs, 2 * d_model, 4 * keep / inputs)

    def forward(self, x: Float[Tensor, "B W D"]) -> Float[Tensor, "B T D"]:
        """Return one vector for every window; there are `T = W - (kernel - 1)`."""
        return F.glu(self.linear(windows(x, self.kernel)), dim=-1)
