"""Inspection: tracing a text through a model, changing it, recording and drawing attention."""

from crosshead.extensions import imported_at_use
from crosshead.inspection.ablation import without_heads
from crosshead.inspection.drawing import draw_attention
from crosshead.inspection.edits import ForbiddenEdge, GivenWeights, HeadOff, Patch, Prefix
from crosshead.inspection.head_measures import HeadMeasures, draw_heads, measure_heads
from crosshead.inspection.mask_drawing import draw_mask
from crosshead.inspection.model_drawing import draw_model
from crosshead.inspection.position_drawing import draw_positions
from crosshead.inspection.record import AttentionWeights, attention_weights, record_attention
from crosshead.inspection.trace import Difference, Trace, trace

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
    "Difference",
    "ForbiddenEdge",
    "GivenWeights",
    "HeadMeasures",
    "HeadOff",
    "ImageAttention",
    "Patch",
    "Prefix",
    "Trace",
    "attention_rollout",
    "attention_weights",
    "draw_attention",
    "draw_heads",
    "draw_image_attention",
    "draw_mask",
    "draw_model",
    "draw_positions",
    "draw_word_maps",
    "grounding",
    "image_attention",
    "measure_heads",
    "record_attention",
    "trace",
    "without_heads",
    "word_maps",
]

__getattr__ = imported_at_use(__name__, _HOMES)
