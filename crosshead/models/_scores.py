"""Scores that the recurrent decoders need, until `attention.scores` has them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from crosshead.attention.scores import Grid
from crosshead.errors import UserError


class ProjectedAdditive(nn.Module):
    """v^T tanh(q + k) of queries and keys that are projected already (Bahdanau et al. 2015, A.1.2).

    With W_q q and W_k k it is the additive score, and Luong's concat: W [q; k] = W_q q + W_k k.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(heads, width))
        nn.init.xavier_uniform_(self.v)

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key; `B H Q K E` numbers are held on the way."""
        compared = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
        return (compared @ self.v[:, None, :, None]).squeeze(-1)


class Location(nn.Module):
    """W_a q, one number for each key position, whatever stands there (Luong et al. 2015, Eq. 8)."""

    def __init__(self, heads: int, d_query: int, positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, positions, d_query))
        nn.init.uniform_(self.weight, -(d_query**-0.5), d_query**-0.5)

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E2"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every position; `UserError` where there are more than known."""
        keys, known = key.shape[-2], self.weight.shape[1]
        if keys > known:
            raise UserError(
                f"a source of {keys} tokens is longer than the {known} positions that this model's "
                "attention knows (model.max_length); shorten or split it"
            )
        return query @ self.weight[:, :keys].transpose(-2, -1)
