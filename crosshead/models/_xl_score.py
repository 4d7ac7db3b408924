"""A stand-in for `attention.relative.TransformerXLScore`, to be replaced by it."""

import math

import torch
from torch import Tensor, nn

from crosshead.attention.scores import Grid


class TransformerXLScore(nn.Module):
    """((q + u)^T k + (q + v)^T W_R R_{i-j}) / sqrt(d_key) (Dai et al. 2019, section 3.3)."""

    def __init__(self, heads: int, d_key: int, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.u = nn.Parameter(torch.zeros(heads, d_key))
        self.v = nn.Parameter(torch.zeros(heads, d_key))
        self.position = nn.Linear(d_model, heads * d_key, bias=False)
        nn.init.xavier_uniform_(self.position.weight)

    def forward(self, query: Tensor, key: Tensor, grid: Grid) -> Tensor:
        """Scores `B H Q K`, the projections gathered for every pair."""
        queries, keys = query.shape[-2], key.shape[-2]
        distance = torch.arange(queries)[:, None] + grid.offset - torch.arange(keys)
        lowest = int(distance.min())
        every = grid.step * torch.arange(lowest, int(distance.max()) + 1, dtype=torch.float64)
        rate = 10000.0 ** (-torch.arange(0, self.d_model, 2, dtype=torch.float64) / self.d_model)
        angle = every[:, None] * rate
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, : self.d_model]
        heads = self.position(table.to(query)).unflatten(-1, self.u.shape)  # distances H E
        content = (query + self.u[:, None]) @ key.transpose(-2, -1)
        by_distance = torch.einsum("bhqe,rhe->bhqr", query + self.v[:, None], heads)
        index = (distance - lowest).expand(*by_distance.shape[:2], -1, -1)
        return (content + by_distance.gather(-1, index)) / math.sqrt(query.shape[-1])
