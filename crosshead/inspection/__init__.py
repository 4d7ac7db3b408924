"""A look inside attention: weights recorded and drawn, heads taken away, masks drawn."""

from crosshead.inspection.drawing import draw_attention
from crosshead.inspection.heads import without_heads
from crosshead.inspection.masks import draw_mask
from crosshead.inspection.record import record_attention
from crosshead.inspection.weights import AttentionWeights, attention_weights

__all__ = [
    "AttentionWeights",
    "attention_weights",
    "draw_attention",
    "draw_mask",
    "record_attention",
    "without_heads",
]
