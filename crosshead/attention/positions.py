"""Positions of tokens: vectors added to embeddings, or rotations of queries and keys."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.kv_cache import Positions

Pairing = Literal["interleaved", "halves"]
"""The order of sines and cosines in a vector: side by side, or all sines before all cosines."""

Rate = Literal["paper", "tensor2tensor"]
"""The rule by which the angle of a pair grows with the position: see `angles`."""


def angles(length: int, d_model: int, rate: Rate = "paper") -> Float[Tensor, "T P"]:
    """Return the angle of each pair of numbers at positions 0 to `length - 1`.

    With the rate "paper", pair i turns by 10000^(-2i/d_model) per position. With "tensor2tensor" it
    turns by 10000^(-i/(d_model/2 - 1)), so that the last pair turns by exactly 1/10000.
    Tensor2Tensor, the code of that paper, computes the latter, and so does Marian. Hugging Face's
    Marian has the paper's rate.

    Reference:
        Vaswani et al. 2017, section 3.5.
    """
    position = torch.arange(length, dtype=torch.float64)
    pair = torch.arange(math.ceil(d_model / 2), dtype=torch.float64)
    pairs = d_model / 2 if rate == "paper" else max(len(pair) - 1, 1)
    return position[:, None] * torch.pow(10000.0, -pair / pairs)


def sinusoidal(
    length: int,
    d_model: int,
    *,
    pairing: Pairing = "interleaved",
    rate: Rate = "paper",
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "T D"]:
    """Return the sinusoidal position encodings of positions 0 to `length - 1`.

    PE(pos, 2i) = sin(angle_i), PE(pos, 2i+1) = cos(angle_i), where angle_i is pos /
    10000^(2i/d_model).

    Args:
        length: Number of positions.
        d_model: Width of the vectors. An odd width has one more sine.
        pairing: "interleaved" as in the paper, or "halves" as in Tensor2Tensor, Marian and Hugging
            Face: all sines before all cosines.
        rate: The rule for the angles: see `angles`.
        dtype: Type of the result.

    Returns:
        Encodings, "T D".

    Reference:
        Vaswani et al. 2017, section 3.5.
    """
    angle = angles(length, d_model, rate)
    sine, cosine = angle.sin(), angle.cos()[:, : d_model // 2]
    if pairing == "halves":
        return torch.cat((sine, cosine), dim=1).to(dtype)
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = sine, cosine
    return table.to(dtype)


def shift(
    k: int, d_model: int, *, pairing: Pairing = "interleaved", rate: Rate = "paper"
) -> Float[Tensor, "D D"]:
    """Return the matrix M_k with PE(pos + k) = M_k PE(pos) at every position.

    The matrix turns each pair by k times its angle, because sin(a + b) and cos(a + b) are linear in
    sin(a) and cos(a). This is why the paper chose sinusoids.

    Args:
        k: Number of positions; may be negative.
        d_model: Width of the vectors.
        pairing: The order of sines and cosines.
        rate: The rule for the angles: see `angles`.

    Returns:
        The matrix, "D D", in float64.

    Raises:
        ValueError: If `d_model` is odd. The last sine then has no cosine.

    Reference:
        Vaswani et al. 2017, section 3.5.
    """
    if d_model % 2:
        raise ValueError(
            f"d_model {d_model} is odd, so the last sine has no cosine; give an even width"
        )
    angle = k * angles(2, d_model, rate)[1]
    sine, cosine = _pairs(torch.arange(d_model), pairing)
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    matrix[sine, sine] = matrix[cosine, cosine] = angle.cos()
    matrix[sine, cosine], matrix[cosine, sine] = angle.sin(), -angle.sin()
    return matrix


class SinusoidalPositions(nn.Module):
    """Fixed sinusoidal position encodings, for any length.

    Reference:
        Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int, pairing: Pairing, rate: Rate = "paper") -> None:
        super().__init__()
        self.d_model, self.pairing, self.rate = d_model, pairing, rate
        # The buffer follows the model to its device and type. It is on the CPU even if the model is
        # built on the meta device.
        self.register_buffer("like", torch.empty(0, device="cpu"), persistent=False)
        self.like: Tensor
        # The table is no buffer: converting the model to bfloat16 and back would round it for good.
        self._table = torch.empty(0, d_model, device="cpu")

    def forward(
        self, start: Positions, length: int
    ) -> Float[Tensor, "T D"] | Float[Tensor, "N T D"]:
        """Return the vectors of positions `start` to `start + length - 1`, in the model's type."""
        dtype = torch.promote_types(self.like.dtype, torch.float32)
        table = self._table
        known = table.shape[0] if (table.device, table.dtype) == (self.like.device, dtype) else 0
        end = last_position(start) + length
        if end > known:  # another thread may be doing the same
            table = self._table = self._computed(2 * end, dtype)
        return rows_of(table, start, length).to(self.like.dtype)

    def _computed(self, length: int, dtype: torch.dtype) -> Float[Tensor, "T D"]:
        """Return the table for at least `length` positions.

        The table allows gradients through its users even if the first call happens in inference
        mode.
        """
        with torch.inference_mode(False):
            return sinusoidal(
                length, self.d_model, pairing=self.pairing, rate=self.rate, dtype=dtype
            ).to(self.like.device)


class Rotary(nn.Module):
    """Rotary positions: queries and keys are rotated, pair by pair, by angles of their positions.

    The product of a rotated query and a rotated key depends on their distance alone. The numbers i
    and i + d/2 of a vector are a pair, as in GPT-NeoX and in Hugging Face's Llama. The paper pairs
    2i and 2i + 1: the two differ only in the order of the columns of W^Q and W^K.

    Reference:
        Su et al. 2021, "RoFormer", section 3.2.2, Eq. 15, section 3.4.2, Eq. 34 (the computation).
    """

    def __init__(self, d_key: int) -> None:
        super().__init__()
        if d_key % 2:
            raise ValueError(
                f"d_key {d_key} is odd, but rotary positions rotate pairs; give an even width"
            )
        self.sinusoids = SinusoidalPositions(d_key, "halves")

    def forward(self, x: Float[Tensor, "B H T E"], start: Positions) -> Float[Tensor, "B H T E"]:
        """Rotate queries or keys."""
        sinusoids = self.sinusoids(start, x.shape[2])
        if sinusoids.dim() == 3:
            sinusoids = sinusoids[:, None]  # the same for all heads of a row
        sine, cosine = sinusoids.chunk(2, dim=-1)
        first, second = _pairs(x, "halves")
        return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)


def last_position(start: Positions) -> int:
    """Return the largest first position of the rows."""
    return start if isinstance(start, int) else int(start.max())


def rows_of(
    table: Float[Tensor, "P D"], start: Positions, length: int
) -> Float[Tensor, "T D"] | Float[Tensor, "N T D"]:
    """Return the vectors of consecutive positions out of a table."""
    if isinstance(start, int):
        return table[start : start + length]
    return table[start[:, None] + torch.arange(length, device=table.device)]


def _pairs(x: Tensor, pairing: Pairing) -> tuple[Tensor, Tensor]:
    """Return the first and the second numbers of the pairs along the last axis."""
    if pairing == "interleaved":
        return x[..., 0::2], x[..., 1::2]
    first, second = x.chunk(2, dim=-1)
    return first, second
