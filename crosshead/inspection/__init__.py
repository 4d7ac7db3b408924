"""Inspection of attention: recording and drawing weights, ablating heads, drawing masks."""

from crosshead.extensions import imported_at_use
from crosshead.inspection.ablation import without_heads
from crosshead.inspection.drawing import draw_attention
from crosshead.inspection.mask_drawing import draw_mask
from crosshead.inspection.record import AttentionWeights, attention_weights, record_attention

_HOMES = {
    "ImageAttention": "crosshead.addons.vision.attention_maps",
    "attention_rollout": "crosshead.addons.vision.attention_maps",
    "draw_image_attention": "crosshead.addons.vision.attention_maps",
    "draw_word_maps": "crosshead.addons.vision.attention_maps",
    "grounding": "crosshead.addons.vision.attention_maps",
    "image_attention": "crosshead.addons.vision.attention_maps",
    "word_maps": "crosshead.addons.vision.attention_maps",
}
"""The modules of names that add-ons define."""

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

__getattr__ = imported_at_use(__name__, _HOMES)
