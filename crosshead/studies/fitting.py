"""Small models that read a sequence and label its positions, and how studies train them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Generator, Tensor, nn

from crosshead.attention.masks import Mask
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.attention.positions import SinusoidalPositions
from crosshead.data.batching import Batch
from crosshead.layers.addnorm import PreNorm
from crosshead.layers.embeddings import Embeddings, embedding_weight
from crosshead.layers.encoder import Encoder, EncoderLayer
from crosshead.layers.feedforward import FeedForward
from crosshead.models.base import TokenModel
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.token_loss import token_loss
from crosshead.training.optimizer import Optimizer
from crosshead.training.schedule import learning_rate
from crosshead.vocabulary import PAD, UNK

FIRST = UNK + 1
"""The first id that is not a special one."""

EPS = 1e-5
"""Epsilon of layer normalisation."""

Draw = Callable[[Generator], Batch]
"""A batch of a task."""


class Reader(nn.Module):
    """Embeddings, a body `B T D -> B T D`, and a projection to labels at every position."""

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
        """Return the hidden states of the body: tokens `B T` to `B T D`."""
        found: Tensor = self.body(self.embeddings(tokens))
        return found


class Stack(nn.Module):
    """Pre-norm encoder layers that attend as `mask` says: to everything without one."""

    def __init__(
        self,
        layers: int,
        attention: Callable[[], MultiHeadAttention],
        d_ff: int,
        mask: Mask | None = None,
    ) -> None:
        super().__init__()
        built = [_layer(attention(), d_ff) for _ in range(layers)]
        self.encoder = Encoder(built, nn.LayerNorm(built[0].attention.output.out_features, eps=EPS))
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        """`B T D` to `B T D`."""
        length = x.shape[1]
        mask = None if self.mask is None else self.mask.dense(length, length, device=x.device)
        found: Tensor = self.encoder(x, mask)
        return found


@contextlib.contextmanager
def drawn_from(seed: int) -> Iterator[Generator]:
    """A block in which weights are drawn from `seed`, and a generator of it for the data."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield Generator().manual_seed(seed)


def updates(
    model: nn.Module, draw: Draw, generator: Generator, *, most: int, rate: float, warmup: int = 50
) -> Iterator[int]:
    """Train on fresh batches, with the optimiser of all training; gives each update's number.

    `model` has `features` and `projection`. The rate is linear to `rate` at `warmup` and falls by
    the inverse square root from there. Whoever iterates may stop, and may look at the model.
    """
    config = TrainConfig.model_validate(
        {"max_updates": most, "learning_rate": rate, "warmup": warmup, "label_smoothing": 0.0}
    )
    optimizer = Optimizer(model, config)
    width = model.get_submodule("projection").in_features
    reader = cast(TokenModel, model)
    for update in range(1, most + 1):
        found = token_loss(reader, draw(generator), config.label_smoothing)
        optimizer.backward(found.sums["loss"] / found.count)
        optimizer.step(learning_rate(config, cast(int, width), update))
        yield update


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """The share of labels that are given the highest logit."""
    reader = cast(TokenModel, model)
    labelled = batch.target_output != PAD
    found = reader.projection(reader.features(*batch.inputs)[labelled]).argmax(dim=-1)
    return float((found == batch.target_output[labelled]).double().mean())


def labelled_at(tokens: Tensor, positions: Tensor, labels: Tensor) -> Batch:
    """Tokens `B T` with one label a row, `labels[b]` at `positions[b]`."""
    wanted = torch.full_like(tokens, PAD)
    wanted[torch.arange(len(tokens)), positions] = labels
    return Batch((tokens,), wanted)


def size(model: nn.Module) -> int:
    """The number of weights."""
    return sum(parameter.numel() for parameter in model.parameters())


def _layer(attention: MultiHeadAttention, d_ff: int) -> EncoderLayer:
    d_model = attention.output.out_features
    norms = PreNorm(d_model, 0.0, EPS), PreNorm(d_model, 0.0, EPS)
    return EncoderLayer(attention, FeedForward(d_model, d_ff), norms)
