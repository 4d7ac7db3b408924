"""The layer types of Vaswani et al. 2017, Table 1, as encoders of one interface.

Each turns `B T D` into `B T D` and is nothing but what mixes positions: no residual connection, no
norm, no feed-forward network, so that its operations, its time and its paths are those of the type.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.layers.convolution import windows


class SelfAttention(nn.Module):
    """Every position attends to all others, or to those that `mask` allows: to be *restricted*.

    A mask is evaluated for sequences of one length.
    """

    def __init__(self, d_model: int, heads: int, mask: EvaluatedMask | None = None) -> None:
        super().__init__()
        width = d_model // heads
        self.attention = MultiHeadAttention(d_model, heads, d_key=width, d_value=width)
        self.mask = mask

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Compute self-attention at every position."""
        return self.attention(x, self.attention.project(x), self.mask)


class RecurrentLayer(nn.Module):
    """PyTorch's recurrent layer, `nn.LSTM` or `nn.GRU`: each state is made of the one before.

    Where it is bidirectional both directions are half as wide, and side by side in the output;
    `ValueError` for an odd width.
    """

    def __init__(
        self, d_model: int, cell: type[nn.LSTM] | type[nn.GRU], *, bidirectional: bool = False
    ) -> None:
        super().__init__()
        if bidirectional and d_model % 2:
            raise ValueError(f"two directions cannot share a width of {d_model} evenly")
        width = d_model // 2 if bidirectional else d_model
        self.cell = cell(d_model, width, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The state at every position."""
        return self.cell(x)[0]


class Convolution(nn.Module):
    """A linear layer of the `kernel` positions around each, or up to it where `causal`.

    Contiguous with a `dilation` of 1; with another the positions stand that far apart (Kalchbrenner
    et al. 2017). What is outside of the sequence is zero.
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
    """A convolution of each channel by itself, then a linear layer at every position.

    Depthwise and pointwise (Chollet 2017, "Xception"): k T D + T D^2 products in the place of the
    k T D^2 of a full one (Vaswani et al. 2017, section 4). Filters begin uniform within
    1/sqrt(kernel), as those of PyTorch's convolutions.
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
    """Zeros before and after the positions, for `F.pad`: windows reach over `reach` positions."""
    before = reach if causal else reach // 2
    return 0, 0, before, reach - before
