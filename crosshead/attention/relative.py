"""Relative positions: scores and combinations that depend on the distance of query and key.

A number that depends on the distance alone is computed once per distance. A view then lays these
numbers along the diagonals of the `Q K` pairs (the relative shift of Dai et al. 2019, appendix B).
Nothing is looked up pair by pair. A distance says how far the query comes after the key, as in
`RelativeOffset`. A key that comes later has a negative distance.

Axes: as in `attend`, and `N` for distances, `Q + K` of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.attend import weighted_sum
from crosshead.attention.positions import SinusoidalPositions
from crosshead.attention.scores import RelativeOffset, Score, products

Bias = Callable[[Tensor], Tensor]
"""A function of distances `N` that returns each head's bias, `H N`."""


def distances(
    queries: int, keys: int, relative: RelativeOffset, device: torch.device | None = None
) -> Int[Tensor, " N"]:
    """Return all distances between queries and keys, the largest first."""
    first, _ = relative.span(queries, keys)
    return relative.step * (first - torch.arange(queries + keys, device=device))


def along_diagonals(by_distance: Float[Tensor, "B H Q N"]) -> Float[Tensor, "B H Q K"]:
    """Return a view that indexes scores by key instead of by distance.

    Reference:
        Dai et al. 2019, appendix B (relative shift).
    """
    queries, number = by_distance.shape[-2:]
    # Rows of one number less begin one number further to the left, relative to the row before.
    end = queries - 1 + queries * (number - 1)
    rows = by_distance.flatten(-2)[..., queries - 1 : end].unflatten(-1, (queries, number - 1))
    return rows[..., : number - queries]


def onto_distances(by_key: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q N"]:
    """Return scores indexed by distance instead of by key."""
    queries, keys = by_key.shape[-2:]
    number = queries + keys
    rows = F.pad(by_key, (0, queries - 1)).flatten(-2)
    return F.pad(rows, (queries - 1, 1)).unflatten(-1, (queries, number))


class Biased(nn.Module):
    """A score plus each head's bias for the distance.

    Args:
        score: The score without positions.
        bias: The bias of each head at each distance.
    """

    def __init__(self, score: Score, bias: Bias) -> None:
        super().__init__()
        self.score, self.bias = score, bias

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        relative: RelativeOffset = RelativeOffset(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q Eq".
            key: Keys, "B H K Ek"; B and H may be 1 to broadcast.
            relative: The distances between queries and keys.
        """
        scores = self.score(query, key, relative)
        queries, keys = scores.shape[-2:]
        bias = self.bias(distances(queries, keys, relative, query.device)).to(scores.dtype)
        # Each query sees a window of the distances, the last one the window that begins first.
        return scores + bias.unfold(-1, keys, 1)[:, :queries].flip(-2)


class T5Buckets(nn.Module):
    """A learned bias for each head and each bucket of distances.

    The biases start at zero. Each layer has its own biases. In T5 all layers share the biases of
    the first.

    Reference:
        Raffel et al. 2020, section 2.1.
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
    """Return the number of the bucket that holds each distance.

    Half of the buckets hold one distance each. The other half hold ranges that grow logarithmically
    up to `furthest`, and the last bucket holds all larger distances.

    Reference:
        Raffel et al. 2020, section 2.1.
    """
    if causal:
        later, distance = torch.zeros_like(distance), distance.clamp(min=0)
    else:
        buckets //= 2
        later, distance = buckets * (distance < 0), distance.abs()
    exact = buckets // 2
    # Some distances fall on the edge of a bucket. Published models were trained with float32 edges.
    growth = torch.log(distance.clamp(min=exact).float() / exact) / math.log(furthest / exact)
    ranged = exact + (growth * (buckets - exact)).long()
    return later + torch.where(distance < exact, distance, ranged.clamp(max=buckets - 1))


@dataclass(frozen=True)
class ALiBi:
    """Attention with linear biases: minus each head's slope times the distance.

    Earlier and later keys get the same bias. Under a causal mask this is the paper's form, and
    without one the symmetric form for encoders.

    Attributes:
        heads: Number of heads.

    Reference:
        Press et al. 2022, section 3.
    """

    heads: int

    def __call__(self, distance: Int[Tensor, " N"]) -> Float[Tensor, "H N"]:
        """Return each head's bias for these distances."""
        return -_slopes(self.heads, distance.device)[:, None] * distance.abs()


@cache
def _slopes(heads: int, device: torch.device) -> Float[Tensor, " H"]:
    """Return the slopes on a device. They are sent once, because a GPU would wait for each copy."""
    with torch.inference_mode(False):
        return torch.tensor(alibi_slopes(heads), device=device)


def alibi_slopes(heads: int) -> list[float]:
    """Return the ALiBi slope of each head: 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads.

    If n is no power of two, the slopes of the next lower power come first, and then every other
    slope of the next higher power, as in the authors' code.

    Reference:
        Press et al. 2022, section 3.
    """
    below = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2 ** (-4 * (2 * i + 1) / below) for i in range(heads - below)]
    return slopes + between


class _Clipped(nn.Module):
    """A learned vector for each clipped distance (Shaw et al. 2018, section 3.2).

    The table begins with the distance of keys that come `furthest` before the query, the paper's
    w_-k. Larger distances share the vector of `furthest`.
    """

    def __init__(self, width: int, furthest: int) -> None:
        super().__init__()
        self.furthest = furthest
        self.table = nn.Parameter(torch.empty(2 * furthest + 1, width))
        nn.init.xavier_uniform_(self.table)

    def forward(self, distance: Int[Tensor, " N"]) -> Float[Tensor, "N E"]:
        """Return the vectors of these distances."""
        return F.embedding(
            self.furthest - distance.clamp(-self.furthest, self.furthest), self.table
        )

    def spread(
        self, by_vector: Float[Tensor, "B H Q V"], keys: int, relative: RelativeOffset
    ) -> Float[Tensor, "B H Q N"]:
        """Return scores by distance, given each query's score with every vector of the table.

        The result has three parts: distances beyond the furthest on one side, distances between,
        and distances beyond the furthest on the other side. A product with the vectors of all
        distances takes longer.
        """
        queries = by_vector.shape[-2]
        # Distances in steps, the largest first.
        first, last = relative.span(queries, keys)
        within = self.furthest // relative.step
        before = min(max(first - within, 0), queries + keys)
        after = min(max(-within - last, 0), queries + keys)
        start = self.furthest - relative.step * min(first, within)
        between = by_vector[..., start :: relative.step][..., : queries + keys - before - after]
        shape = by_vector.shape[:-1]
        pieces = (
            by_vector[..., :1].expand(*shape, before),
            between,
            by_vector[..., -1:].expand(*shape, after),
        )
        return torch.cat(pieces, dim=-1)


class ShawKeys(nn.Module):
    """The score q . (k + a_ij) times a scale.

    a_ij is a learned vector for each distance, the same for all heads of a layer.

    Reference:
        Shaw et al. 2018, section 3.1, Eq. 4.
    """

    def __init__(self, d_key: int, furthest: int = 16, scale: float | None = None) -> None:
        super().__init__()
        self.vectors = _Clipped(d_key, furthest)
        self.scale = d_key**-0.5 if scale is None else scale

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        relative: RelativeOffset = RelativeOffset(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K"."""
        query = query * self.scale
        by_distance = self.vectors.spread(query @ self.vectors.table.T, key.shape[-2], relative)
        return products(query, key) + along_diagonals(by_distance)


class ShawValues(nn.Module):
    """The sum of the weights times (v + a_ij), a `Combine`.

    a_ij is a learned vector for each distance, the same for all heads of a layer.

    Reference:
        Shaw et al. 2018, section 3.1, Eq. 3.
    """

    def __init__(self, d_value: int, furthest: int = 16) -> None:
        super().__init__()
        self.vectors = _Clipped(d_value, furthest)

    def forward(
        self,
        weights: Float[Tensor, "B H Q K"],
        value: Float[Tensor, "#B #H K E"],
        relative: RelativeOffset = RelativeOffset(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q E"]:
        """Return the outputs, "B H Q E"."""
        vectors = self.vectors(
            distances(weights.shape[-2], weights.shape[-1], relative, weights.device)
        )
        return weighted_sum(weights, value) + onto_distances(weights) @ vectors


class TransformerXLScore(nn.Module):
    """The score ((q + u) . k + (q + v) . W_R R_d) / sqrt(d_k).

    R_d is the sinusoid of the distance d, all sines first as in the authors' code. u, v ("H E",
    zero at the start) and W_R ("H D E") are learned for each head.

    Reference:
        Dai et al. 2019, section 3.3.
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
        relative: RelativeOffset = RelativeOffset(),  # noqa: B008 - immutable
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K"."""
        scale = query.shape[-1] ** -0.5
        by_content = products((query + self.u[:, None]) * scale, key)
        query = (query + self.v[:, None]) * scale
        sinusoids = self._sinusoids(query.shape[-2], key.shape[-2], relative)
        if query.shape[0] * query.shape[2] < query.shape[3]:
            # With few queries, as in decoding, projecting the queries takes fewer products.
            query = torch.einsum("bhqe,hde->bhqd", query, self.weight)
            by_distance = query @ sinusoids.T
        else:
            vectors = torch.einsum("nd,hde->hne", sinusoids, self.weight)
            by_distance = torch.einsum("bhqe,hne->bhqn", query, vectors)
        return by_content + along_diagonals(by_distance)

    def _sinusoids(self, queries: int, keys: int, relative: RelativeOffset) -> Float[Tensor, "N D"]:
        """Return R_d of every distance; the sine of a negative distance is the negative sine."""
        distance = distances(queries, keys, relative, self.u.device)
        furthest = relative.step * max(map(abs, relative.span(queries, keys)))
        table = self.sinusoids(0, furthest + 1)[distance.abs()]
        sine, cosine = table.tensor_split([(table.shape[1] + 1) // 2], dim=1)
        return torch.cat((sine * distance.sign()[:, None], cosine), dim=1)
