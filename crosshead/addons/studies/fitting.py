"""Models of studies: readers of sequences and how they are trained, and models of equal size."""

import contextlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import torch
from pydantic import TypeAdapter
from torch import Generator, Tensor, nn

from crosshead.attention.masks import Mask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.positions import SinusoidalPositions
from crosshead.attention.scores import ScaledDot, Score
from crosshead.bundle.weights import build_without_memory
from crosshead.layers.addnorm import PreNorm
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.layers.encoder import EncoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.layers.layer_stack import LayerStack
from crosshead.models.base import TokenModel, TokenModelConfig
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.token_loss import token_loss
from crosshead.text.batching import Batch
from crosshead.training.optimizer import Optimizer
from crosshead.training.schedule import learning_rate
from crosshead.vocabulary import PAD, UNK

FIRST = UNK + 1
"""The first id that is not a special one."""

EPS = 1e-5
"""Epsilon of layer normalisation."""

LEARNED = 0.95
"""The accuracy from which on a task counts as learned, unless a study says otherwise."""

PLAIN, BAHDANAU, LUONG = "LSTM without attention", "LSTM, Bahdanau", "LSTM, Luong"
CONVOLUTIONAL, TRANSFORMER = "ConvS2S", "Transformer"

POSITIONS = 260
"""Positions of ConvS2S: enough for sentences of 256 tokens, the longest in training, and their
ends."""

WITHIN = 0.02
"""The largest relative difference in weights between models that count as equally large."""

WIDTHS = range(16, 2049, 2)
"""Even widths: half of a bidirectional layer reads backwards."""

Draw = Callable[[Generator], Batch]
"""Draws a batch of a task."""


class Reader(nn.Module):
    """Embeddings, a body "B T D" to "B T D", and a projection to labels at every position."""

    def __init__(
        self, vocabulary: int, d_model: int, body: nn.Module, *, positions: bool = True
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(
            embedding_weight(vocabulary, d_model),
            SinusoidalPositions(d_model, "interleaved") if positions else None,
            dropout=0.0,
        )
        self.body = body
        self.projection = nn.Linear(d_model, vocabulary)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def features(self, tokens: Tensor) -> Tensor:
        """Return the hidden states of the body: tokens "B T" to "B T D"."""
        states: Tensor = self.body(self.embeddings(tokens))
        return states


class Stack(nn.Module):
    """Pre-norm encoder layers with one mask; without it every position attends to all."""

    def __init__(
        self,
        layers: int,
        d_model: int,
        heads: int,
        d_ff: int,
        mask: Mask | None = None,
        score: Score | None = None,
    ) -> None:
        super().__init__()
        width, scored = d_model // heads, score or ScaledDot()

        def layer() -> EncoderLayer:
            attention = MultiHeadAttention(d_model, heads, d_key=width, d_value=width, score=scored)
            norms = PreNorm(d_model, 0.0, EPS), PreNorm(d_model, 0.0, EPS)
            return EncoderLayer(attention, FeedForward(d_model, d_ff), norms)

        norm = nn.LayerNorm(d_model, eps=EPS)
        self.encoder = LayerStack([layer() for _ in range(layers)], norm)
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states of the last layer: "B T D" to "B T D"."""
        length = x.shape[1]
        mask = None if self.mask is None else self.mask.dense(length, length, device=x.device)
        for each in self.encoder.layers:
            x = each(x, mask)
        states: Tensor = self.encoder.norm(x)
        return states


@contextlib.contextmanager
def drawn_from(seed: int) -> Iterator[Generator]:
    """Draw weights in the block from `seed`, and yield a generator of that seed for the data."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield Generator().manual_seed(seed)


def updates(
    model: nn.Module,
    draw: Draw,
    generator: Generator,
    *,
    most: int,
    rate: float,
    warmup: int = 50,
) -> Iterator[float]:
    """Train on fresh batches with the package's optimiser; give each update's gradient norm.

    The caller may look at the model between updates, and may stop early. The model has `features`
    and `projection`. The learning rate peaks at `rate` and falls by the inverse square root. A norm
    that is not finite is infinity.
    """
    config = TrainConfig.model_validate(
        {
            "max_updates": most, "learning_rate": rate, "warmup": warmup, "label_smoothing": 0.0,
            "clip_norm": 1.0,
        }
    )  # fmt: skip
    optimizer, reader = Optimizer(model, config), cast(TokenModel, model)
    width = cast(int, model.get_submodule("projection").in_features)
    for update in range(1, most + 1):
        found = token_loss(reader, draw(generator), config)
        optimizer.backward(found.sums["loss"] / found.count)
        norm = optimizer.step(learning_rate(config, width, update, (update - 1) / most))
        yield math.inf if norm is None else norm


def train(
    model: nn.Module, draw: Draw, generator: Generator, *, most: int, rate: float, warmup: int = 50
) -> None:
    """Train for all updates of `updates`."""
    for _ in updates(model, draw, generator, most=most, rate=rate, warmup=warmup):
        pass


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Return the share of labels that get the highest logit."""
    reader = cast(TokenModel, model)
    labelled = batch.target_output != PAD
    found = reader.projection(reader.features(*batch.inputs)[labelled]).argmax(dim=-1)
    return float((found == batch.target_output[labelled]).double().mean())


def labelled_at(tokens: Tensor, positions: Tensor, labels: Tensor) -> Batch:
    """Return tokens "B T" with one label a row: `labels[b]` at `positions[b]`."""
    wanted = torch.full_like(tokens, PAD)
    wanted[torch.arange(len(tokens)), positions] = labels
    return Batch((tokens,), wanted)


def size(model: nn.Module) -> int:
    """Return the number of weights."""
    return sum(parameter.numel() for parameter in model.parameters())


def transformer(
    width: int, d_ff: int, heads: int, layers: int, *, norm: str = "post", dropout: float = 0.0
) -> TransformerConfig:
    """Return a Transformer with as many layers on either side."""
    sides = {"encoder_layers": layers, "decoder_layers": layers}
    inner = {"d_ff": d_ff, "heads": heads, "norm": norm, "dropout": dropout}
    return TransformerConfig.model_validate({"d_model": width, **sides, **inner})


def weights(config: AnyTokenConfig, vocabulary: int) -> int:
    """Return the number of weights of such a model, counted without allocating them."""
    return size(build_without_memory(partial(build_model, config, vocabulary, vocabulary)))


_CONFIG: TypeAdapter[TokenModelConfig] = TypeAdapter(AnyTokenConfig)


def as_large(settings: Mapping[str, Any], vocabulary: int, wanted: int) -> AnyTokenConfig:
    """Return the model whose width gives a number of weights nearest to the wanted one."""

    def shape(width: int) -> AnyTokenConfig:
        return _CONFIG.validate_python({**settings, "d_model": width})

    def count(width: int) -> int:
        return weights(shape(width), vocabulary)

    above = bisect_left(WIDTHS, wanted, key=count)
    near = WIDTHS[max(0, above - 1) : above + 1]
    best = min(near, key=lambda width: abs(count(width) - wanted))
    if abs(count(best) / wanted - 1) > WITHIN:
        raise ValueError(
            f"no width gives {wanted:,} weights within {WITHIN:.0%}: {best} gives {count(best):,}"
        )
    return shape(best)


SHAPES: dict[str, dict[str, Any]] = {
    PLAIN: {"architecture": "recurrent", "attention": "none"},
    BAHDANAU: {"architecture": "recurrent", "attention": "bahdanau"},
    LUONG: {"architecture": "recurrent", "attention": "luong-general"},
    CONVOLUTIONAL: {"architecture": "convolutional", "max_length": POSITIONS},
}
"""The architectures beside the Transformer. The recurrent ones differ only in how the decoder sees
the source."""


def shapes(reference: TransformerConfig, vocabulary: int) -> dict[str, AnyTokenConfig]:
    """Return a Transformer, and the other architectures with as many weights.

    The recurrent models have one layer a side, as Bahdanau's. ConvS2S has as many layers as the
    Transformer.
    """
    wanted, found = weights(reference, vocabulary), {}
    for name, settings in SHAPES.items():
        layers = reference.encoder_layers if name == CONVOLUTIONAL else 1
        sides = {"encoder_layers": layers, "decoder_layers": layers, "dropout": reference.dropout}
        found[name] = as_large({**settings, **sides}, vocabulary, wanted)
    return {**found, TRANSFORMER: reference}
