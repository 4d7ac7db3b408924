"""Inspection of attention: recording and drawing weights, ablating heads, drawing masks."""

from crosshead.inspection.ablation import without_heads
from crosshead.inspection.attention_weights import AttentionWeights, attention_weights
from crosshead.inspection.caption_maps import draw_word_maps, grounding, word_maps
from crosshead.inspection.drawing import draw_attention, draw_image_attention
from crosshead.inspection.image_attention import (
    ImageAttention,
    attention_rollout,
    image_attention,
)
from crosshead.inspection.mask_drawing import draw_mask
from crosshead.inspection.record import record_attention

__all__ = [
    "AttentionWeights",
    "ImageAttention",
    "attention_rollout",
    "attention_weights",
    "draw_attention",
    "draw_image_attention",
    "draw_mask",
    "draw_word_maps",
    "grounding",
    "image_attention",
    "record_attention",
    "without_heads",
    "word_maps",
]
