"""Attention of a recurrent decoder to its source: one head, keys projected once per sentence.

Axes: `B` sentences, `N` rows being decoded, `T` target positions, `S` source positions, `D` width.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from crosshead.attention.attend import Attention, Combine, Observe, attend, weighted_sum
from crosshead.attention.kv_cache import KeyValues
from crosshead.attention.masks import EvaluatedMask
from crosshead.attention.scores import RelativeOffset, Score


class LocalWindow(nn.Module):
    """Local attention with predictive alignment, local-p.

        p = S sigmoid(v^T tanh(W_p h))                                  Eq. 9
        a(s) = align(h, h_s) exp(-(s - p)^2 / (2 sigma^2))              Eq. 10

    A query h attends to the positions from p - `radius` to p + `radius`. The softmax is taken over
    these positions, and positions near p count more: sigma is half the radius. Positions are
    counted from 0, and S is the sentence's own length. The window itself has no gradient; p has one
    through the Gaussian. Positions are computed in float32 at least, because 16 bits cannot tell
    neighbours in a long sentence apart.

    Reference:
        Luong et al. 2015, section 3.2, Eq. 9 and 10.
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
        """Predict the window of every query."""
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
                observe(weights * allowed)  # an empty source has no weights
            return weighted_sum(weights, value, relative)

        return allowed, combine


class SourceAttention(Attention):
    """Attention to the source with one head; it returns a context vector for every query.

    `key` projects the memory once per sentence. A score with its own matrices would project the
    memory again at every decoding step. The values are the memory itself.
    """

    def __init__(
        self, query: nn.Module, key: nn.Module, score: Score, window: LocalWindow | None = None
    ) -> None:
        super().__init__()
        self.query, self.key = query, key
        self.score, self.window = score, window

    def project(self, memory: Float[Tensor, "B S D"]) -> KeyValues:
        """Return the keys and values of a memory."""
        return KeyValues(self.key(memory).unsqueeze(1), memory.unsqueeze(1))

    def forward(
        self, x: Float[Tensor, "N T D"], memory: KeyValues, mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "N T D"]:
        """Return the context of every position."""
        vectors = x.reshape(mask.shape[0], -1, x.shape[-1])
        combine: Combine = weighted_sum
        allowed: EvaluatedMask = mask
        observe = self.observe
        if self.window is not None:
            allowed, combine = self.window(vectors, mask, observe)
            observe = None  # the window shows the weights after the Gaussian
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
