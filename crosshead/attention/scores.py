"""Score functions: objects that turn `B H Q E` and `B H K E` into scores `B H Q K`.

Scores with parameters are modules; each head has parameters of its own.

For independent inputs of unit variance, products scaled by 1/sqrt(d_k), `General` and `Location`
start with scores of unit variance. A tanh lowers the variance: to 0.39 in `Additive` and `Concat`,
and to 0.52 in `ProjectedAdditive`, whose sums of two have variance 2. The variance of `Dot` is d_k;
that of `Cosine` is its scale squared over d_k.

Additive scores hold `B H Q K A` numbers, because they take the tanh of every pair. Products hold `B
H Q K`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Grid:
    """The distance of queries and keys: query i comes `step * (i + offset - j)` after key j.

    For a whole sequence the distance is `i - j`. After a past of `P` positions, which are already
    keys, the offset is `P`. Kernels that attend in blocks have other offsets and steps. The offset
    is None if the keys do not follow each other at equal steps. `whole` is True if the keys are all
    keys of the sequence, and False for those of a block.
    """

    offset: int | None = 0
    step: int = 1
    whole: bool = True

    def span(self, queries: int, keys: int) -> tuple[int, int]:
        """Return the steps from first key to last query, and from the end to the first query.

        Every user of distances calls this method.

        Raises:
            ValueError: If the positions have no regular distances.
        """
        if self.offset is None:
            raise ValueError(
                "this score or combination looks at distances, but the summary columns of a fixed "
                "sparse pattern have no regular ones; give the mask as `dense`, or another score"
            )
        return self.offset + queries - 1, self.offset - keys


Score = Callable[[Tensor, Tensor, Grid], Tensor]
"""Queries `B H Q E` and keys `B H K E`, and where they stand, to scores `B H Q K`."""


def products(
    query: Float[Tensor, "B H Q E"], key: Float[Tensor, "#B #H K E"]
) -> Float[Tensor, "B H Q K"]:
    """The dot product of every query with every key."""
    if query.shape[-2] == 1 and query.device.type == "cpu":
        # One query each, in decoding: a batch of such small products would copy its operands.
        return (query * key).sum(dim=-1).unsqueeze(-2)
    return query @ key.transpose(-2, -1)


@dataclass(frozen=True)
class ScaledDot:
    """The dot product times `scale`, by default 1/sqrt(d_k) (Vaswani et al. 2017, Eq. 1).

    Without the scale the products of random vectors grow with sqrt(d_k) and push the softmax into
    regions of vanishing gradient (section 3.2.1, footnote 4).
    """

    scale: float | None = None

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        scale = 1.0 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        # The queries are scaled instead of the scores: there are fewer of them.
        return products(query * scale, key)


@dataclass(frozen=True)
class Dot(ScaledDot):
    """The plain dot product q . k (Luong et al. 2015, section 3.1, "dot")."""

    scale: float | None = 1.0


class Cosine(nn.Module):
    """scale * q . k / (|q| |k|) (Graves et al. 2014, "Neural Turing Machines", Eq. 5 and 6).

    A `scale` that is a parameter is learned: one number, or one a head, of shape `H 1 1`. Without
    any no weight could be much larger than another.
    """

    def __init__(self, scale: float | nn.Parameter) -> None:
        super().__init__()
        self.scale = scale

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        return products(F.normalize(query, dim=-1) * self.scale, F.normalize(key, dim=-1))


class General(nn.Module):
    """q^T W k, with a W for each head (Luong et al. 2015, section 3.1, "general").

    Queries and keys may differ in width.
    """

    def __init__(self, heads: int, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = _normal(heads, d_query, d_key, variance=1 / (d_query * d_key))

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        return products(_per_head(query, self.weight), key)


class Additive(nn.Module):
    """v^T tanh(W_q q + W_k k) (Bahdanau et al. 2015, appendix A.1.2: W_a, U_a and v_a).

    `width` is the number of hidden units, `A` (n' there). Queries and keys may differ in width.
    """

    def __init__(self, heads: int, d_query: int, d_key: int, width: int) -> None:
        super().__init__()
        variance = 1 / (d_query + d_key)
        self.query_weight = _normal(heads, d_query, width, variance=variance)
        self.key_weight = _normal(heads, d_key, width, variance=variance)
        self.v = _normal(heads, width, variance=1 / width)

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        return _hidden_sums(
            _per_head(query, self.query_weight), _per_head(key, self.key_weight), self.v
        )


class ProjectedAdditive(nn.Module):
    """v^T tanh(q + k) of queries and keys that are projected already.

    With W_q q and W_k k it is `Additive`: for a decoder that looks at one source in many steps, so
    that its keys are projected once.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.v = _normal(heads, width, variance=1 / width)

    def forward(
        self,
        query: Float[Tensor, "B H Q A"],
        key: Float[Tensor, "#B #H K A"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        return _hidden_sums(query, key, self.v)


class Concat(nn.Module):
    """v^T tanh(W [q; k]) (Luong et al. 2015, section 3.1, "concat").

    What W makes of the query and of the key add up: it is `Additive` with both matrices in one, and
    is computed like that, without a vector `[q; k]` for every pair.
    """

    def __init__(self, heads: int, d_query: int, d_key: int, width: int) -> None:
        super().__init__()
        self.d_query = d_query
        self.weight = _normal(heads, d_query + d_key, width, variance=1 / (d_query + d_key))
        self.v = _normal(heads, width, variance=1 / width)

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        of_query, of_key = self.weight[:, : self.d_query], self.weight[:, self.d_query :]
        return _hidden_sums(_per_head(query, of_query), _per_head(key, of_key), self.v)


class Location(nn.Module):
    """W q: a score for each place in the source, by the query alone (Luong et al. 2015, section
    3.1, "location").

    `longest` is the number of places that W has a row for.
    """

    def __init__(self, heads: int, d_query: int, longest: int) -> None:
        super().__init__()
        self.weight = _normal(heads, d_query, longest, variance=1 / d_query)

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        grid: Grid = Grid(),
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every place that has a key.

        Raises `ValueError` for more keys than there are places: nothing was learned for them; and
        in a block, whose keys are not told their places.
        """
        if not grid.whole:
            raise ValueError(
                "a location-based score knows the places of all keys, not of a block's; give the "
                "mask as `dense`"
            )
        keys, longest = key.shape[-2], self.weight.shape[-1]
        if keys > longest:
            raise ValueError(
                f"{keys} keys are more than the {longest} places that this location-based score "
                "has learned; shorten the source, or learn more places"
            )
        return _per_head(query, self.weight[..., :keys])


def _normal(*shape: int, variance: float) -> nn.Parameter:
    parameter = nn.Parameter(torch.empty(shape))
    nn.init.normal_(parameter, std=math.sqrt(variance))
    return parameter


def _per_head(
    x: Float[Tensor, "#B #H T E"], weight: Float[Tensor, "H E A"]
) -> Float[Tensor, "_ H T A"]:
    """Vectors, each times the matrix of its head."""
    # Not `x @ weight`: that would copy the matrices for each row of the batch.
    return torch.einsum("bhte,hea->bhta", x, weight)


def _hidden_sums(
    query: Float[Tensor, "B H Q A"], key: Float[Tensor, "#B H K A"], v: Float[Tensor, "H A"]
) -> Float[Tensor, "B H Q K"]:
    """v^T tanh(query + key) for every pair."""
    # Of the largest tensor here one copy is kept for backwards, not three: tanh in place, and a sum
    # in the order of its axes, which `flatten` then need not copy.
    hidden = (query.contiguous().unsqueeze(-2) + key.contiguous().unsqueeze(-3)).tanh_()
    scores = hidden.flatten(2, 3) @ v.unsqueeze(-1)
    return scores.view(hidden.shape[:-1])
