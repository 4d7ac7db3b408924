"""Where a token stands: vectors added to embeddings."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Layout = Literal["interleaved", "halves"]


def sinusoidal(
    length: int, d_model: int, *, layout: Layout = "interleaved"
) -> Float[Tensor, "T D"]:
    """Sinusoids of geometrically growing wavelength for positions 0 to `length - 1`.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same)
    (Vaswani et al. 2017, section 3.5). `layout` puts sines and cosines side by side as the paper
    does, or all sines before all cosines as Marian and Hugging Face do; an odd `d_model` has one
    sine more.
    """
    position = torch.arange(length, dtype=torch.float64)
    pair = torch.arange(math.ceil(d_model / 2), dtype=torch.float64)
    angle = position[:, None] * torch.pow(10000.0, -2.0 * pair / d_model)
    sine, cosine = angle.sin(), angle.cos()[:, : d_model // 2]
    if layout == "halves":
        return torch.cat((sine, cosine), dim=1).float()
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = sine, cosine
    return table.float()
