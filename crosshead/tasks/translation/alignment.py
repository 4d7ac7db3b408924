"""Which source tokens a translation's tokens come from, by the attention of its model."""

import copy
import threading
from collections.abc import Sequence

import numpy as np
import torch

from crosshead.bundle.text_bundle import TextBundle
from crosshead.layers.guided_alignment import GUIDED_HEAD
from crosshead.models.base import TokenModel
from crosshead.models.ensemble import Ensemble
from crosshead.tasks.token_loss import guided_attention, observed
from crosshead.text.batching import Example, collate, example_lengths, plan_in_order
from crosshead.text.placing import diagonal, in_both_directions

_TOKENS = 4096
"""The number of tokens that are read at once, padding counted."""


class AttentionAlignments:
    """Alignments of pairs by a model's attention.

    The weights are those of the head that guided alignment has trained, or else the mean of the
    heads in its layer, the last but one. A model without attention to the source is taken to
    translate in the order of the source.

    Both tokens of a link must look for each other (`in_both_directions`).
    """

    def __init__(self, bundle: TextBundle) -> None:
        model = bundle.model.members[0] if isinstance(bundle.model, Ensemble) else bundle.model
        self._start, self._lock = bundle.specials.start, threading.Lock()
        self._guided = bundle.config.guided
        self._model = None
        if isinstance(model, TokenModel) and model.attentions().get("cross"):
            # A copy with the same weights, because other threads decode with the model meanwhile.
            shared = [*model.parameters(), *model.buffers()]
            self._model = copy.deepcopy(model, {id(each): each for each in shared})

    @torch.inference_mode()
    def of(self, examples: Sequence[Example]) -> list[np.ndarray]:
        """Return the weight of each source token for each target token, "T S" for each pair."""
        if self._model is None:
            return [diagonal(len(target), len(source)) for source, target in examples]
        device = next(self._model.parameters()).device
        found: dict[int, np.ndarray] = {}
        for rows in plan_in_order(example_lengths(examples), _TOKENS):
            batch = collate(examples, rows.tolist(), self._start).to(device)
            with self._lock, observed(guided_attention(self._model)) as seen:
                self._model.features(*batch.inputs)
            heads = seen[0].float()
            weights = (heads[:, GUIDED_HEAD] if self._guided else heads.mean(1)).cpu().numpy()
            for row, each in zip(rows.tolist(), weights, strict=True):
                source, target = examples[row]
                found[row] = in_both_directions(each[: len(target), : len(source)])
        return [found[row] for row in range(len(examples))]
