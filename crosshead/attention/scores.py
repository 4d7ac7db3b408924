"""Score functions: they turn queries `B H Q E` and keys `B H K E` into scores `B H Q K`.

Scores with parameters are modules. Each head has its own parameters.

For independent inputs of unit variance, products scaled by 1/sqrt(d_k), `General` and `Location`
start with scores of unit variance. A tanh lowers the variance: to 0.39 in `Additive` and `Concat`,
and to 0.52 in `ProjectedAdditive`, where the sum of two inputs has variance 2. The variance of
`Dot` is d_k. The variance of `Cosine` is its squared scale divided by d_k.

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

__all__ = [
    "Additive",
    "Concat",
    "Cosine",
    "Dot",
    "General",
    "Location",
    "ProjectedAdditive",
    "RelativeOffset",
    "ScaledDot",
    "Score",
]


@dataclass(frozen=True)
class RelativeOffset:
    """The distances between queries and keys: query i comes `step * (i + offset - j)` after key j.

    In a whole sequence the distance is `i - j`. With a cache of `P` positions, whose keys come
    first, the offset is `P`. Block-sparse attention has other offsets and steps.

    Attributes:
        offset: Number of steps from the first key to the first query; None if the keys do not
            follow each other at equal steps.
        step: Number of positions between neighbouring keys, and between neighbouring queries.
        all_keys: True if the keys are all keys of the sequence, False if they belong to a block.
    """

    offset: int | None = 0
    step: int = 1
    all_keys: bool = True

    def span(self, queries: int, keys: int) -> tuple[int, int]:
        """Return the range of the distances, in steps.

        Every score and combination that uses distances calls this method.

        Args:
            queries: Number of queries.
            keys: Number of keys.

        Returns:
            The steps from the first key to the last query, and from the position after the last key
            to the first query.

        Raises:
            ValueError: If the positions have no regular distances.
        """
        if self.offset is None:
            raise ValueError(
                "this score or combination needs distances, but the summary columns of a fixed "
                "sparse pattern have no regular ones; evaluate the mask with `dense`, or give "
                "another score"
            )
        return self.offset + queries - 1, self.offset - keys


Score = Callable[[Tensor, Tensor, RelativeOffset], Tensor]
"""A function of queries `B H Q E`, keys `B H K E` and their distances that returns scores `B H Q
K`."""


def products(
    query: Float[Tensor, "B H Q E"], key: Float[Tensor, "#B #H K E"]
) -> Float[Tensor, "B H Q K"]:
    """Return the dot product of every query with every key."""
    if query.shape[-2] == 1 and query.device.type == "cpu":
        return products_of_one_query(query, key)
    return query @ key.transpose(-2, -1)


def products_of_one_query(
    query: Float[Tensor, "B H 1 E"], key: Float[Tensor, "#B #H K E"]
) -> Float[Tensor, "B H 1 K"]:
    """Return the dot product of a single query with every key, as decoding needs it.

    On a CPU, a batch of such small matrix products would copy its operands.
    """
    return (query * key).sum(dim=-1).unsqueeze(-2)


@dataclass(frozen=True)
class ScaledDot:
    """The dot product times a scale.

    Without the scale the products of random vectors grow with sqrt(d_k) and push the softmax into
    regions of vanishing gradient.

    Attributes:
        scale: Factor of the products; by default 1/sqrt(d_k).

    Reference:
        Vaswani et al. 2017, section 3.2.1, Eq. 1, footnote 4.
    """

    scale: float | None = None

    def __call__(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q E".
            key: Keys, "B H K E"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        scale = 1.0 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        # The queries are scaled instead of the scores: there are fewer of them.
        return products(query * scale, key)


@dataclass(frozen=True)
class Dot(ScaledDot):
    """The plain dot product q . k.

    Reference:
        Luong et al. 2015, section 3.1 ("dot").
    """

    scale: float | None = 1.0


class Cosine(nn.Module):
    """The scaled cosine: scale * q . k / (|q| |k|).

    With a scale of 1 no weight could be much larger than another.

    Args:
        scale: Factor of the cosines. A parameter is learned: one number, or one per head, "H 1 1".

    Reference:
        Graves et al. 2014, "Neural Turing Machines", Eq. 5 and 6.
    """

    def __init__(self, scale: float | nn.Parameter) -> None:
        super().__init__()
        self.scale = scale

    def forward(
        self,
        query: Float[Tensor, "B H Q E"],
        key: Float[Tensor, "#B #H K E"],
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q E".
            key: Keys, "B H K E"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        return products(F.normalize(query, dim=-1) * self.scale, F.normalize(key, dim=-1))


class General(nn.Module):
    """The bilinear score q^T W k, a W for each head.

    Args:
        heads: Number of heads.
        d_query: Width of a query.
        d_key: Width of a key.

    Reference:
        Luong et al. 2015, section 3.1 ("general").
    """

    def __init__(self, heads: int, d_query: int, d_key: int) -> None:
        super().__init__()
        self.weight = _normal(heads, d_query, d_key, variance=1 / (d_query * d_key))

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q Eq".
            key: Keys, "B H K Ek"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        return products(_per_head(query, self.weight), key)


class Additive(nn.Module):
    """The additive score v^T tanh(W_q q + W_k k).

    The paper's names are v_a, W_a and U_a.

    Args:
        heads: Number of heads.
        d_query: Width of a query.
        d_key: Width of a key.
        width: Number of hidden units, `A`; the paper's n'.

    Reference:
        Bahdanau et al. 2015, appendix A.1.2.
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
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q Eq".
            key: Keys, "B H K Ek"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        return _hidden_sums(
            _per_head(query, self.query_weight), _per_head(key, self.key_weight), self.v
        )


class ProjectedAdditive(nn.Module):
    """The additive score v^T tanh(q + k) of queries and keys that are projected already.

    It equals `Additive` if the queries are W_q q and the keys W_k k. A decoder that attends to one
    source in many steps then projects the keys once.

    Args:
        heads: Number of heads.
        width: Width of queries and keys, `A`.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.v = _normal(heads, width, variance=1 / width)

    def forward(
        self,
        query: Float[Tensor, "B H Q A"],
        key: Float[Tensor, "#B #H K A"],
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Projected queries, "B H Q A".
            key: Projected keys, "B H K A"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        return _hidden_sums(query, key, self.v)


class Concat(nn.Module):
    """The score v^T tanh(W [q; k]).

    W [q; k] is the sum of two products, one with q and one with k. So this is `Additive` with both
    matrices in one, and no vector `[q; k]` is built for every pair.

    Args:
        heads: Number of heads.
        d_query: Width of a query.
        d_key: Width of a key.
        width: Number of hidden units, `A`.

    Reference:
        Luong et al. 2015, section 3.1 ("concat").
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
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q Eq".
            key: Keys, "B H K Ek"; B and H may be 1 to broadcast.
            relative: Not used; the score does not depend on distances.
        """
        of_query, of_key = self.weight[:, : self.d_query], self.weight[:, self.d_query :]
        return _hidden_sums(_per_head(query, of_query), _per_head(key, of_key), self.v)


class Location(nn.Module):
    """The location-based score W q.

    The query alone gives a score to each source position.

    Args:
        heads: Number of heads.
        d_query: Width of a query.
        longest: Number of source positions that W has a row for.

    Reference:
        Luong et al. 2015, section 3.1 ("location").
    """

    def __init__(self, heads: int, d_query: int, longest: int) -> None:
        super().__init__()
        self.weight = _normal(heads, d_query, longest, variance=1 / d_query)

    def forward(
        self,
        query: Float[Tensor, "B H Q Eq"],
        key: Float[Tensor, "#B #H K Ek"],
        relative: RelativeOffset = RelativeOffset(),
    ) -> Float[Tensor, "B H Q K"]:
        """Return the scores, "B H Q K".

        Args:
            query: Queries, "B H Q Eq".
            key: Keys, "B H K Ek", for their number only.
            relative: The distances between queries and keys; the keys must be all keys of the
                sequence.

        Raises:
            ValueError: If there are more keys than learned positions, or the keys belong to a
                block, whose positions are unknown.
        """
        if not relative.all_keys:
            raise ValueError(
                "a location-based score needs the positions of all keys, and found the keys of a "
                "block; evaluate the mask with `dense`"
            )
        keys, longest = key.shape[-2], self.weight.shape[-1]
        if keys > longest:
            raise ValueError(
                f"{keys} keys are more than the {longest} positions that this location-based score "
                "has learned; shorten the source, or learn more positions"
            )
        return _per_head(query, self.weight[..., :keys])


def _normal(*shape: int, variance: float) -> nn.Parameter:
    parameter = nn.Parameter(torch.empty(shape))
    nn.init.normal_(parameter, std=math.sqrt(variance))
    return parameter


def _per_head(
    x: Float[Tensor, "#B #H T E"], weight: Float[Tensor, "H E A"]
) -> Float[Tensor, "_ H T A"]:
    """Return every vector times the matrix of its head."""
    # Not `x @ weight`: that would copy the matrices for each row of the batch.
    return torch.einsum("bhte,hea->bhta", x, weight)


def _hidden_sums(
    query: Float[Tensor, "B H Q A"], key: Float[Tensor, "#B H K A"], v: Float[Tensor, "H A"]
) -> Float[Tensor, "B H Q K"]:
    """Return v^T tanh(query + key) for every pair."""
    # The backward pass keeps one copy of the largest tensor, not three: tanh works in place, and
    # the sum has its axes in order, so that `flatten` does not copy.
    hidden = (query.contiguous().unsqueeze(-2) + key.contiguous().unsqueeze(-3)).tanh_()
    scores = hidden.flatten(2, 3) @ v.unsqueeze(-1)
    return scores.view(hidden.shape[:-1])
