"""Inspection of attention: recording and drawing weights, ablating heads, drawing masks."""

from crosshead.inspection.ablation import without_heads
from crosshead.inspection.attention_weights import AttentionWeights, attention_weights
from crosshead.inspection.drawing import draw_attention
from crosshead.inspection.mask_drawing import draw_mask
from crosshead.inspection.record import record_attention

__all__ = [
    "AttentionWeights",
    "attention_weights",
    "draw_attention",
    "draw_mask",
    "record_attention",
    "without_heads",
]
