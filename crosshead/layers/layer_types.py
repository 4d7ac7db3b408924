"""The layer types of Vaswani et al. 2017, Table 1, with one interface: `B T D` in, `B T D` out.

A layer only mixes positions. It has no residual connection, no norm and no feed-forward network. So
its operations, its time and its path lengths belong to the layer type alone.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.convolution import windows


class SelfAttention(nn.Module):
    """Self-attention; with a mask of a window it is the table's "restricted" self-attention."""

    def __init__(self, d_model: int, heads: int, mask: EvaluatedMask | None = None) -> None:
        super().__init__()
        width = d_model // heads
        self.attention = MultiHeadAttention(d_model, heads, d_key=width, d_value=width)
        self.mask = mask

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Compute self-attention at every position."""
        return self.attention(x, self.attention.project(x), self.mask)


class RecurrentLayer(nn.Module):
    """A recurrent layer: PyTorch's `nn.LSTM`, `nn.GRU` or `nn.RNN`."""

    def __init__(
        self, d_model: int, cell: type[nn.LSTM | nn.GRU | nn.RNN], *, bidirectional: bool = False
    ) -> None:
        super().__init__()
        if bidirectional and d_model % 2:
            raise ValueError(
                f"two directions cannot share a width of {d_model} evenly; give an even one"
            )
        width = d_model // 2 if bidirectional else d_model
        self.cell = cell(d_model, width, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the state at every position."""
        return self.cell(x)[0]


class Convolution(nn.Module):
    """A convolution: a linear layer of the window of every position, zero outside the sequence.

    Reference:
        Kalchbrenner et al. 2017 (dilated convolution).
    """

    def __init__(
        self, d_model: int, kernel: int, *, dilation: int = 1, causal: bool = False
    ) -> None:
        super().__init__()
        self.kernel, self.dilation = kernel, dilation
        self.around = _around((kernel - 1) * dilation, causal)
        self.linear = nn.Linear(kernel * d_model, d_model)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Apply the convolution to the window of every position."""
        return self.linear(windows(F.pad(x, self.around), self.kernel, self.dilation))


class SeparableConvolution(nn.Module):
    """A separable convolution: one filter per channel, then a linear layer at every position.

    It is depthwise and pointwise, with k T D + T D^2 products instead of the k T D^2 of a full
    convolution. Filters start uniform within 1/sqrt(kernel), as in PyTorch's convolutions.

    Reference:
        Chollet 2017, "Xception"; Vaswani et al. 2017, section 4.
    """

    def __init__(self, d_model: int, kernel: int, *, causal: bool = False) -> None:
        super().__init__()
        self.around = _around(kernel - 1, causal)
        self.filters = nn.Parameter(torch.empty(kernel, d_model))
        nn.init.uniform_(self.filters, -(kernel**-0.5), kernel**-0.5)
        self.pointwise = nn.Linear(d_model, d_model)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Apply the separable convolution to the window of every position."""
        x, length = F.pad(x, self.around), x.shape[1]
        mixed = x[:, :length] * self.filters[0]
        for j in range(1, self.filters.shape[0]):
            mixed = torch.addcmul(mixed, x[:, j : j + length], self.filters[j])
        return self.pointwise(mixed)


def _around(reach: int, causal: bool) -> tuple[int, int, int, int]:
    """Return the padding for `F.pad` of windows that span `reach` positions besides their own."""
    before = reach if causal else reach // 2
    return 0, 0, before, reach - before
