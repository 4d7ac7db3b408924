"""Scores and values that know how far a query stands from a key.

What depends on distance alone is computed once a distance and then laid along the diagonals of the
`Q K` pairs by a view (the relative shift of Dai et al. 2019, appendix B): nothing is looked up pair
by pair. Distances are those of the `Grid`: how far the query comes after the key, so that a key
that comes later has a negative one. Besides the legend, `N` is distances: `Q + K`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.attend import weighted_sum
from crosshead.attention.positions import SinusoidalPositions
from crosshead.attention.scores import Grid, Score, products

Bias = Callable[[Tensor], Tensor]
"""Distances `N` to what each head adds to scores at them, `H N`."""


def distances(
    queries: int, keys: int, grid: Grid, device: torch.device | None = None
) -> Int[Tensor, " N"]:
    """All the distances between so many queries and keys, from the furthest past on.

    The pair (i, j) has the one at `queries - 1 - i + j`. There is one more than pairs have (the
    last), which lets `along_diagonals` be a view.
    """
    first, _ = grid.span(queries, keys)
    return grid.step * (first - torch.arange(queries + keys, device=device))


def along_diagonals(by_distance: Float[Tensor, "B H Q N"]) -> Float[Tensor, "B H Q K"]:
    """Return a view that indexes scores by key instead of by distance."""
    queries, number = by_distance.shape[-2:]
    # Rows that are one number shorter begin one number further to the left, each than the last.
    end = queries - 1 + queries * (number - 1)
    rows = by_distance.flatten(-2)[..., queries - 1 : end].unflatten(-1, (queries, number - 1))
    return rows[..., : number - queries]


def onto_distances(by_key: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q N"]:
    """Return scores indexed by distance instead of by key; 0 for distances without a key."""
    queries, keys = by_key.shape[-2:]
    number = queries + keys
    rows = F.pad(by_key, (0, queries - 1)).flatten(-2)
    return F.pad(rows, (queries - 1, 1)).unflatten(-1, (queries, number))


class Biased(nn.Module):
    """A score plus each head's bias for the distance."""

    def __init__(self, score: Score, bias: Bias) -> None:
        super().__init__()
        self.score, self.bias = score, bias

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        scores = self.score(query, key, grid)
        queries, keys = scores.shape[-2:]
        bias = self.bias(distances(queries, keys, grid, query.device)).to(scores.dtype)
        # Each query sees a window of the distances, the last one the window that begins first.
        return scores + bias.unfold(-1, keys, 1)[:, :queries].flip(-2)


class T5Buckets(nn.Module):
    """A learned number a head and bucket of distances (Raffel et al. 2020, section 2.1).

    All zero at the start. Each layer has its own here; T5's layers share those of the first.
    """

    def __init__(self, heads: int, *, causal: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.causal, self.furthest = causal, furthest
        self.table = nn.Parameter(torch.zeros(heads, buckets))

    def forward(self, distance: Int[Tensor, " N"]) -> Float[Tensor, "H N"]:
        """Return each head's bias for these distances."""
        bucket = t5_bucket(distance, self.causal, self.table.shape[1], self.furthest)
        return self.table[:, bucket]


def t5_bucket(
    distance: Int[Tensor, "*shape"], causal: bool, buckets: int = 32, furthest: int = 128
) -> Int[Tensor, "*shape"]:
    """The number of the bucket that holds a distance (Raffel et al. 2020, section 2.1).

    Half of the buckets hold one distance each, the other half ranges that grow logarithmically up
    to `furthest`; the last one holds all beyond. Without `causal` the upper half of all buckets is
    for keys that come after the query; with it these count as at distance 0.
    """
    if causal:
        later, distance = torch.zeros_like(distance), distance.clamp(min=0)
    else:
        buckets //= 2
        later, distance = buckets * (distance < 0), distance.abs()
    exact = buckets // 2
    # In float32, in which published models were trained: some distances fall on an edge.
    growth = torch.log(distance.clamp(min=exact).float() / exact) / math.log(furthest / exact)
    ranged = exact + (growth * (buckets - exact)).long()
    return later + torch.where(distance < exact, distance, ranged.clamp(max=buckets - 1))


@dataclass(frozen=True)
class ALiBi:
    """The distance times a slope of each head's own, taken away (Press et al. 2022, section 3).

    In both directions alike: under a causal mask that is the paper's, and without one the
    symmetric form for encoders.
    """

    heads: int

    def __call__(self, distance: Int[Tensor, " N"]) -> Float[Tensor, "H N"]:
        """Return each head's bias for these distances."""
        slopes = torch.tensor(alibi_slopes(self.heads), device=distance.device)
        return -slopes[:, None] * distance.abs()


def alibi_slopes(heads: int) -> list[float]:
    """The slope of each head: 2^(-8/n), 2^(-16/n), ... 2^-8 for n heads (Press et al. 2022,
    section 3).

    Where n is no power of two they are those of the power below it, and then every other one of the
    power above it, as in the authors' code.
    """
    below = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2 ** (-4 * (2 * i + 1) / below) for i in range(heads - below)]
    return slopes + between


class _Clipped(nn.Module):
    """A learned vector a distance, those beyond the `furthest` alike (Shaw et al. 2018, 3.2).

    The table begins with the distance of keys that come `furthest` before the query (w_-k there).
    """

    def __init__(self, width: int, furthest: int) -> None:
        super().__init__()
        self.furthest = furthest
        self.table = nn.Parameter(torch.empty(2 * furthest + 1, width))
        nn.init.xavier_uniform_(self.table)

    def forward(self, distance: Int[Tensor, " N"]) -> Float[Tensor, "N E"]:
        """The vectors of these distances."""
        return F.embedding(
            self.furthest - distance.clamp(-self.furthest, self.furthest), self.table
        )

    def spread(
        self, by_vector: Float[Tensor, "B H Q V"], keys: int, grid: Grid
    ) -> Float[Tensor, "B H Q N"]:
        """Return scores by distance, given each query's score with every vector of the table.

        The result has three parts: distances beyond the furthest on one side, distances between,
        and distances beyond the furthest on the other side. A product with the vectors of all
        distances takes longer.
        """
        queries = by_vector.shape[-2]
        # In steps of the grid; distances go down.
        first, last = grid.span(queries, keys)
        within = self.furthest // grid.step
        before = min(max(first - within, 0), queries + keys)
        after = min(max(-within - last, 0), queries + keys)
        start = self.furthest - grid.step * min(first, within)
        between = by_vector[..., start :: grid.step][..., : queries + keys - before - after]
        shape = by_vector.shape[:-1]
        pieces = (
            by_vector[..., :1].expand(*shape, before),
            between,
            by_vector[..., -1:].expand(*shape, after),
        )
        return torch.cat(pieces, dim=-1)


class ShawKeys(nn.Module):
    """q . (k + a_ij) times `scale`, by default 1/sqrt(d_k) (Shaw et al. 2018, Eq. 4).

    a_ij is one vector a distance, those beyond `furthest` alike, for all heads of a layer.
    """

    def __init__(self, d_key: int, furthest: int = 16, scale: float | None = None) -> None:
        super().__init__()
        self.vectors = _Clipped(d_key, furthest)
        self.scale = d_key**-0.5 if scale is None else scale

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        query = query * self.scale
        by_distance = self.vectors.spread(query @ self.vectors.table.T, key.shape[-2], grid)
        return products(query, key) + along_diagonals(by_distance)


class ShawValues(nn.Module):
    """The sum of weight times (v + a_ij) (Shaw et al. 2018, Eq. 3): a `Combine` of `attend`.

    a_ij is one vector a distance, those beyond `furthest` alike, for all heads of a layer.
    """

    def __init__(self, d_value: int, furthest: int = 16) -> None:
        super().__init__()
        self.vectors = _Clipped(d_value, furthest)

    def forward(
        self,
        weights: Float[Tensor, "B H Q K"],
        value: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q E"]:
        """Return each query's weighted sum."""
        vectors = self.vectors(
            distances(weights.shape[-2], weights.shape[-1], grid, weights.device)
        )
        return weighted_sum(weights, value) + onto_distances(weights) @ vectors


class TransformerXLScore(nn.Module):
    """((q + u) . k + (q + v) . W_R R_d) / sqrt(d_k), d the distance (Dai et al. 2019, section 3.3).

    `u`, `v` (`H E`, zero at the start) and W_R (`H D E`) are learned for each head; R_d is the
    sinusoid of the distance, all sines first as in the authors' code.
    """

    def __init__(self, heads: int, d_key: int, d_model: int) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(heads, d_key))
        self.v = nn.Parameter(torch.zeros(heads, d_key))
        self.weight = nn.Parameter(torch.empty(heads, d_model, d_key))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.sinusoids = SinusoidalPositions(d_model, "halves")

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        grid: Grid = Grid(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Every query's score with every key."""
        scale = query.shape[-1] ** -0.5
        by_content = products((query + self.u[:, None]) * scale, key)
        query = (query + self.v[:, None]) * scale
        sinusoids = self._sinusoids(query.shape[-2], key.shape[-2], grid)
        if query.shape[0] * query.shape[2] < query.shape[3]:
            # Few queries, in decoding: fewer than a vector W_R R_d has numbers.
            query = torch.einsum("bhqe,hde->bhqd", query, self.weight)
            by_distance = query @ sinusoids.T
        else:
            vectors = torch.einsum("nd,hde->hne", sinusoids, self.weight)
            by_distance = torch.einsum("bhqe,hne->bhqn", query, vectors)
        return by_content + along_diagonals(by_distance)

    def _sinusoids(self, queries: int, keys: int, grid: Grid) -> Float[Tensor, "N D"]:
        """R_d of every distance: the sine of a negative one is the negative sine."""
        distance = distances(queries, keys, grid, self.u.device)
        furthest = grid.step * max(map(abs, grid.span(queries, keys)))
        table = self.sinusoids(0, furthest + 1)[distance.abs()]
        sine, cosine = table.tensor_split([(table.shape[1] + 1) // 2], dim=1)
        return torch.cat((sine * distance.sign()[:, None], cosine), dim=1)
