"""Measures of heads on a file: how wide they look, and what the model loses without them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from crosshead.errors import ConfigError, DataError
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.inspection.ablation import without_heads
from crosshead.inspection.drawing import save
from crosshead.inspection.record import NAMES, joined, record_attention
from crosshead.models.base import AttentionKind
from crosshead.system.plotting import drawing, new_figure
from crosshead.tasks.translation.translator import Translator

__all__ = ["HeadMeasures", "draw_heads", "measure_heads"]

Head = tuple[AttentionKind, int, int]


class HeadMeasures(NamedTuple):
    """The measures of a head on a file.

    Attributes:
        kind: The kind of attention.
        layer: The layer, counted from 1.
        head: The head, counted from 1.
        entropy: The mean entropy of its weights, in nats.
        distance: The mean distance of what it attends to, in positions.
        loss: What the loss on the references gains without it, in nats a piece.
        bleu: What BLEU loses without it; None if it was not asked for.

    Reference:
        Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 3; Vig and Belinkov
        2019, "Analyzing the Structure of Attention", section 4.
    """

    kind: AttentionKind
    layer: int
    head: int
    entropy: float
    distance: float
    loss: float
    bleu: float | None


def measure_heads(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    scored: bool = False,
) -> Iterator[HeadMeasures]:
    """Yield the measures of each head on pairs of texts, the first kind and layer first.

    The model reads each pair by itself, and then scores all pairs without each head.

    Args:
        translator: The translator.
        sources: The source lines.
        targets: Their translations.
        scored: True also measures BLEU, which translates the sources without each head.

    Yields:
        The measures.

    Raises:
        ConfigError: If the model has no attention.
        DataError: If the lists are empty or differ in length, or a line is empty or too long.
    """
    if not sources:
        raise DataError("no pairs: there is nothing to measure; give some lines")
    before, bleu_before = _quality(translator, sources, targets, scored)
    looked = _looks(translator, sources, targets)
    for (kind, layer, head), (entropy, distance) in looked.items():
        with without_heads(translator, [(layer, head)], kind):
            loss, score = _quality(translator, sources, targets, scored)
        lost = None if score is None or bleu_before is None else bleu_before - score
        yield HeadMeasures(kind, layer, head, entropy, distance, loss - before, lost)


def _looks(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> dict[Head, tuple[float, float]]:
    """Return the mean entropy and distance of each head."""
    kinds = [kind for kind in NAMES if kind in translator.model.attentions()]
    if not kinds:
        raise ConfigError("this model has no attention; train one with attention to measure heads")
    totals = {kind: torch.zeros(()) for kind in kinds}
    rows = dict.fromkeys(kinds, 0)
    for source, target in zip(sources, targets, strict=True):
        for kind, weights in _weights_of_pair(translator, source, target).items():
            queries, keys = map(torch.arange, weights.shape[2:])
            entropy = torch.special.entr(weights).sum(-1)
            distance = (weights * (queries[:, None] - keys).abs()).sum(-1)
            totals[kind] = totals[kind] + torch.stack([entropy.sum(-1), distance.sum(-1)])
            rows[kind] += len(queries)
    return {
        (kind, layer, head): (entropy, distance)
        for kind in kinds
        for layer, heads in enumerate((totals[kind] / rows[kind]).permute(1, 2, 0).tolist(), 1)
        for head, (entropy, distance) in enumerate(heads, 1)
    }


def _weights_of_pair(
    translator: Translator, source: str, target: str
) -> dict[AttentionKind, Float[Tensor, "L H Q K"]]:
    """Return the weights of every kind while the model reads a pair once."""
    read = translator.attention_inputs(source, target, "cross")
    with torch.inference_mode(), record_attention(translator) as recorded:
        translator.model(*read.inputs)
    names = {module: name for name, module in translator.model.named_modules()}
    return {
        kind: torch.stack(
            [
                joined(recorded[names[each]], len(read.queries if kind == "decoder" else read.keys))
                for each in modules
            ]
        )
        .float()
        .cpu()
        for kind, modules in translator.model.attentions().items()
    }


def _quality(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], scored: bool
) -> tuple[float, float | None]:
    """Return the loss in nats a piece, and BLEU if it is asked for."""
    scores = translator.score(sources, targets)
    pieces = [each for score in scores for each in score.piece_log_probs]
    loss = -sum(pieces) / len(pieces)
    return loss, bleu(translator(list(sources)), targets) if scored else None


@drawing()
def draw_heads(found: Sequence[HeadMeasures], *, path: Path | str | None = None) -> Any:
    """Draw what the model loses without each head, a map for each kind of attention.

    Args:
        found: The measures of all heads.
        path: The file of the picture, with the suffix .png, .pdf or .svg; None writes none.

    Returns:
        The figure, a `matplotlib.figure.Figure`.

    Raises:
        UserError: If matplotlib is missing, or the file cannot be written.
    """
    scored = all(each.bleu is not None for each in found)
    kinds = list(dict.fromkeys(each.kind for each in found))
    figure = new_figure(figsize=(3.2 * len(kinds), 2.8))
    costs = [each.bleu if scored and each.bleu is not None else each.loss for each in found]
    most = max(map(abs, costs)) or 1.0
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        own = {(e.layer, e.head): c for e, c in zip(found, costs, strict=True) if e.kind == kind}
        layers, heads = (max(place) for place in zip(*own, strict=True))
        rows = [[own[i, j] for j in range(1, heads + 1)] for i in range(1, layers + 1)]
        extent = (0.5, heads + 0.5, layers + 0.5, 0.5)
        image = axes.imshow(rows, cmap="RdBu", vmin=-most, vmax=most, extent=extent, aspect="auto")
        axes.set(xlabel="head", ylabel="layer", title=NAMES[kind].capitalize())
        axes.set_xticks(range(1, heads + 1))
        axes.set_yticks(range(1, layers + 1))
    what = "BLEU lost without the head" if scored else "loss gained without the head, nats a piece"
    figure.colorbar(image, ax=figure.axes, label=what)
    return save(path, figure)
