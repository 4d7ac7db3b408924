"""The loss of models that predict tokens."""

import contextlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crosshead.attention.attend import Attention
from crosshead.attention.dropout import dropout
from crosshead.layers.consistency import ViewWeights, fused_two_view_loss
from crosshead.layers.guided_alignment import GUIDED_HEAD, alignment_loss
from crosshead.layers.loss import fused_cross_entropy
from crosshead.models.base import TokenModel
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.validation import Loss
from crosshead.text.batching import Batch
from crosshead.vocabulary import CUT, EOS


class LabelSmoothing(NamedTuple):
    """Label smoothing alone, for a loss without a recipe."""

    label_smoothing: float
    """The share of probability that goes to all tokens (Vaswani et al. 2017, section 5.4)."""
    consistency: Literal["none"] = "none"
    consistency_weight: float | None = None
    word_dropout: float | None = None
    guided_alignment: float = 0.0


class Consistency(NamedTuple):
    """A loss of two views."""

    by: ViewWeights
    """The weights of its terms, for a divergence of weight 1."""
    weight: float
    """The weight of the divergence in the paper, beside the mean cross-entropy."""
    cuts_first: bool
    """True if tokens are cut from the first view too."""
    word_dropout: float
    """The share of tokens that the paper cuts."""


CONSISTENCY = {
    "r-drop": Consistency(ViewWeights(0.5, 0.5, 0.5), 2.5, cuts_first=True, word_dropout=0.0),
    "simcut": Consistency(ViewWeights(0.0, 1.0, 0.0), 3.0, cuts_first=False, word_dropout=0.05),
}
"""The losses of two views, by the value of `train.consistency` (Liang et al. 2021; Gao et al.
2022). In both, gradients pass through both views."""


def token_loss(model: TokenModel, batch: Batch, settings: TrainConfig | LabelSmoothing) -> Loss:
    """Return the cross-entropy of the target tokens, without padding.

    In training, the settings may cut tokens from the inputs, or ask for a second view of the batch.
    Both views then pass through the model as one batch of twice the rows. If the batch has
    alignments, the loss of guided alignment is added.
    """
    if model.training and settings.consistency != "none":
        return _two_view_loss(model, batch, settings)
    share = (settings.word_dropout or 0.0) if model.training else 0.0
    with _guided(model, batch) as weights:
        hidden = model.features(*without_words(batch.inputs, share))
    states, target = batch.predictions(hidden)
    found = fused_cross_entropy(
        states,
        model.projection.weight,
        model.projection.bias,
        target,
        settings.label_smoothing,
    )
    loss = Loss({"loss": found.loss, "nll": found.nll}, batch.count)
    return _with_guidance(loss, weights, batch.alignment, settings.guided_alignment)


@contextlib.contextmanager
def _guided(model: TokenModel, batch: Batch) -> Iterator[list[Tensor]]:
    """Yield a list that gets the attention weights to guide, if the batch has alignments."""
    if not model.training or batch.alignment is None:
        yield []
        return
    with observed(guided_attention(model)) as seen:
        yield seen


def _with_guidance(
    loss: Loss, weights: list[Tensor], alignment: Tensor | None, weight: float
) -> Loss:
    """Add the loss of guided alignment to a loss; with two views it is their mean."""
    if not weights or alignment is None:
        return loss
    views = weights[0][:, GUIDED_HEAD].split(len(alignment))
    guidance = weight * torch.stack([alignment_loss(view, alignment) for view in views]).mean()
    sums = {**loss.sums, "loss": loss.sums["loss"] + guidance, "alignment": guidance}
    return Loss(sums, loss.count)


def guided_attention(model: TokenModel) -> Attention:
    """Return the attention that guided alignment trains: to the source, in the last layer but one.

    Garg et al. also train one head of this layer.

    Reference:
        Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models".
    """
    layer, _ = guided_head(model)
    return model.attentions()["cross"][layer - 1]


def guided_head(model: TokenModel) -> tuple[int, int]:
    """Return the layer and the head that guided alignment trains, both counted from 1."""
    return max(1, len(model.attentions()["cross"]) - 1), GUIDED_HEAD + 1


@contextlib.contextmanager
def observed(attention: Attention) -> Iterator[list[Tensor]]:
    """Yield a list that gets the weights "B H Q K" of each call in the block."""
    seen: list[Tensor] = []
    before, attention.observe = attention.observe, seen.append
    try:
        yield seen
    finally:
        attention.observe = before


def _two_view_loss(model: TokenModel, batch: Batch, settings: TrainConfig | LabelSmoothing) -> Loss:
    """Return the loss of a batch in two views."""
    kind = CONSISTENCY[settings.consistency]
    weight = settings.consistency_weight or kind.weight
    share = kind.word_dropout if settings.word_dropout is None else settings.word_dropout
    views = (
        without_words(batch.inputs, share if kind.cuts_first else 0.0),
        without_words(batch.inputs, share),
    )
    with _guided(model, batch) as weights:
        both = model.features(*map(torch.cat, zip(*views, strict=True)))
    states, target = batch.predictions(both.unflatten(0, (2, -1)))
    found = fused_two_view_loss(
        states,
        model.projection.weight,
        model.projection.bias,
        target,
        settings.label_smoothing,
        ViewWeights(kind.by.second, weight * kind.by.forward, weight * kind.by.backward),
    )
    sums = {"loss": found.loss, "nll": found.nll, "consistency": found.divergence}
    loss = Loss(sums, batch.count)
    return _with_guidance(loss, weights, batch.alignment, settings.guided_alignment)


def without_words(inputs: tuple[Tensor, ...], share: float) -> tuple[Tensor, ...]:
    """Return inputs of a model in which random tokens are `CUT`.

    Padding, the start and the end of a sentence, and masked tokens are never cut. The draws come
    from the generator of dropout.
    """
    if not share:
        return inputs
    return tuple(each if each.is_floating_point() else _cut(each, share) for each in inputs)


def _cut(tokens: Tensor, share: float) -> Tensor:
    drawn = dropout(torch.ones(tokens.shape, device=tokens.device), share) == 0
    return tokens.masked_fill(drawn & (tokens > EOS), CUT)
