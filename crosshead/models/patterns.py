"""Self-attention masks of models: the causal mask or the padding mask, with a pattern."""

import torch

from crosshead.attention.kv_cache import DecodingCache
from crosshead.attention.masks import EvaluatedMask, Mask, causal
from crosshead.models.stack import PATTERNS, StackConfig


def self_mask(config: StackConfig, mask: Mask) -> Mask:
    """Return the self-attention mask: the pairs of `mask` that the pattern also allows."""
    pattern = _pattern(config)
    return mask if pattern is None else mask & pattern


def causal_mask(
    config: StackConfig, new: int, before: int, device: torch.device
) -> EvaluatedMask | None:
    """Return the causal self-attention mask of new positions after cached ones."""
    all_near = config.pattern == "window" and before <= (config.radius or 0)
    if new == 1 and (config.pattern == "full" or all_near):
        return None
    mask = self_mask(config, causal)
    return mask.evaluate(new, before + new, offset=before, device=device)


def decoding_mask(
    config: StackConfig, new: int, cache: DecodingCache, device: torch.device
) -> EvaluatedMask | None:
    """Return the causal self-attention mask of new positions after a cache."""
    before, padding = cache.visible, cache.padding
    if padding is None:
        return causal_mask(config, new, before, device)
    # Positions count from the first of each row, as the pattern "fixed" needs.
    first = padding.view(-1, 1, 1, 1)
    query = torch.arange(before, before + new, device=device).view(1, 1, -1, 1) - first
    key = torch.arange(before + new, device=device).view(1, 1, 1, -1) - first
    batch, head = torch.zeros_like(first), torch.zeros_like(first[:1])
    return self_mask(config, causal)(batch, head, query, key) & (key >= 0)


def cache_window(config: StackConfig) -> int | None:
    """Return the number of earlier positions that self-attention can see; None for all.

    A `DecodingCache` may drop older positions, because a pattern with a limit depends on distances
    alone.
    """
    if config.radius is None:
        return None
    return config.radius * (config.dilation or 1)


def _pattern(config: StackConfig) -> Mask | None:
    """Return the mask of the pattern alone; None for the pattern "full"."""
    used, pattern = PATTERNS[config.pattern]
    return None if pattern is None else pattern(*(getattr(config, name) for name in used))
