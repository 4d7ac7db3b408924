"""Attention of a recurrent decoder over its source: one head; keys are projected once a sentence.

Axes: `B` sentences, `N` rows being decoded, `T` target positions, `S` source positions, `D` width.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from crosshead.attention.attend import Attention, Combine, Observe, attend, weighted_sum
from crosshead.attention.cache import KeyValues
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.scores import RelativeOffset, Score


class LocalWindow(nn.Module):
    """Local attention with predictive alignment, local-p (Luong et al. 2015, section 3.2).

        p = S sigmoid(v^T tanh(W_p h))                                  Eq. 9
        a(s) = align(h, h_s) exp(-(s - p)^2 / (2 sigma^2))              Eq. 10

    A query `h` looks at the positions from p - `radius` to p + `radius`, among which the softmax is
    taken, and those near p count more: sigma is half the radius. Positions are counted from 0, and
    S is the sentence's own length. The window itself has no gradient; p has one by the Gaussian.
    Places are computed in float32 at least, whatever the type of the queries: 16 bits do not tell
    neighbours of a long sentence.
    """

    def __init__(self, d_query: int, radius: int) -> None:
        super().__init__()
        self.radius = radius
        self.inner = nn.Linear(d_query, d_query, bias=False)
        self.outer = nn.Linear(d_query, 1, bias=False)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        mask: Bool[Tensor, "B 1 1 S"],
        observe: Observe | None = None,
    ) -> tuple[Bool[Tensor, "B 1 Q S"], Combine]:
        """Return the mask of the local window, and the way its weights combine with the values.

        `observe` receives a(s): the weights after the Gaussian, whose sum is at most 1.
        """
        length = mask.sum(dim=-1, keepdim=True)
        predicted = self.outer(torch.tanh(self.inner(query))).unsqueeze(1)
        wide = torch.promote_types(predicted.dtype, torch.float32)
        centre = length * predicted.to(wide).sigmoid()
        distance = torch.arange(mask.shape[-1], device=mask.device) - centre
        nearness = torch.exp(-2 * (distance / self.radius).square())  # 1/(2 sigma^2) = 2/radius^2
        allowed = mask & (distance.abs() <= self.radius)

        def combine(weights: Tensor, value: Tensor, relative: RelativeOffset) -> Tensor:
            weights = weights * nearness.to(weights.dtype)
            if observe is not None:
                observe(weights * allowed)  # of an empty source no weight is one
            return weighted_sum(weights, value, relative)

        return allowed, combine


class SourceAttention(Attention):
    """A context for every query: `score` compares what `query` and `key` make of the vectors.

    A score with matrices of its own would project the memory again at every step of a decoder;
    `key` does so once a sentence. Values are the memory itself. With a `window` a query looks at
    some positions only.
    """

    def __init__(
        self, query: nn.Module, key: nn.Module, score: Score, window: LocalWindow | None = None
    ) -> None:
        super().__init__()
        self.query, self.key = query, key
        self.score, self.window = score, window

    def project(self, memory: Float[Tensor, "B S D"]) -> KeyValues:
        """The memory as this attention looks at it."""
        return KeyValues(self.key(memory).unsqueeze(1), memory.unsqueeze(1))

    def forward(
        self, x: Float[Tensor, "N T D"], memory: KeyValues, mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "N T D"]:
        """The context of every position of every row; rows of a sentence look side by side.

        `mask` is True where there is a source position.
        """
        vectors = x.reshape(mask.shape[0], -1, x.shape[-1])
        combine: Combine = weighted_sum
        allowed: EvaluatedMask = mask
        observe = self.observe
        if self.window is not None:
            allowed, combine = self.window(vectors, mask, observe)
            observe = None  # the weights before the Gaussian are not what is used
        contexts = attend(
            self.query(vectors).unsqueeze(1),
            memory.keys,
            memory.values,
            mask=allowed,
            score=self.score,
            combine=combine,
            observe=observe,
            backend=self.backend,
        )
        return contexts.reshape(x.shape)
