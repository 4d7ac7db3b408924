"""Sampling: the tokens that may be drawn, their probabilities, and the draw.

Axes: `N` rows being decoded, `V` vocabulary, `C` allowed ids, `K` the most probable of them.
"""

from collections.abc import Collection

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from crosshead.decoding.candidates import top_values


def uniforms(seed: int, number: int, index: int, length: int) -> np.ndarray:
    """Return numbers in [0, 1) that depend on (seed, sentence number, sample)."""
    return np.random.default_rng([seed, number, index]).random(length, dtype=np.float32)


def sampled_from(
    log_probs: Float[Tensor, "N V"],
    forbidden: Collection[int],
    temperature: float,
    top_k: int,
    top_p: float,
) -> tuple[Int[Tensor, " C"], Float[Tensor, "N C"]]:
    """Return the allowed ids and the probabilities to draw them with, not normalised.

    The temperature comes first, then the `top_k` most probable tokens, then the nucleus of these:
    the fewest tokens whose share reaches `top_p`. Tokens as probable as the last one of the nucleus
    belong to it too.

    Reference:
        Holtzman et al. 2020, section 3.1.
    """
    allowed = torch.ones(log_probs.shape[1], dtype=torch.bool, device=log_probs.device)
    allowed[list(forbidden)] = False
    ids = allowed.nonzero().flatten()
    # Forbidden ids are removed, because a rounding error in the cumulative sum could pick a zero.
    probabilities = (log_probs.index_select(1, ids) / temperature).softmax(-1)
    if top_k or top_p < 1:
        least = _least_probability(probabilities, top_k, top_p)
        probabilities = probabilities.masked_fill(probabilities < least, 0)
    return ids, probabilities


def _least_probability(
    probabilities: Float[Tensor, "N C"], top_k: int, top_p: float
) -> Float[Tensor, "N 1"]:
    """Return the probability of the least probable token that may be drawn."""
    best = top_values(probabilities, top_k or 64)[0]
    mass = top_p * (best if top_k else probabilities).sum(-1, keepdim=True)
    least = _end_of_nucleus(best, mass)
    # A nucleus is rarely wide. Only the rows with a wide one are sorted as a whole.
    wide = (best.sum(-1, keepdim=True) < mass).nonzero()[:, 0]
    if len(wide):
        whole = probabilities[wide].sort(descending=True).values
        least[wide] = _end_of_nucleus(whole, mass[wide])
    return least


def _end_of_nucleus(best: Float[Tensor, "N K"], mass: Float[Tensor, "N 1"]) -> Float[Tensor, "N 1"]:
    """Return the last sorted probability before which the sum is still below `mass`."""
    before = best.cumsum(-1) - best
    count = (before < mass).sum(-1, keepdim=True).clamp(min=1)  # a mass may be rounded to 0
    return best.gather(1, count - 1)


def inverse_cdf(
    probabilities: Float[Tensor, "N C"], numbers: Float[Tensor, " N"]
) -> Int[Tensor, " N"]:
    """Return the first place in each row whose cumulative probability exceeds its number."""
    cumulative = probabilities.cumsum(-1)
    targets = numbers[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, targets, right=True)[:, 0]
    return places.clamp(max=probabilities.shape[1] - 1)
